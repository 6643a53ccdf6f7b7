"""Replays a trace with libcachesim's policies, as the other side of `fullbore bench eviction`.

Usage: python3 -c SCRIPT TRACE WARM_UP OUT MIB..., where TRACE has lines of second,object,MiB. The first WARM_UP lines only fill the caches.
Writes a line to OUT for each policy: its name, and the byte miss ratio for each size of the cache, separated by tabs.
"""

import os
import sys
import tempfile

import libcachesim as lcs

POLICIES = {
    "LRU": lcs.LRU,
    "SIEVE": lcs.Sieve,
    "S3-FIFO": lcs.S3FIFO,
    "W-TinyLFU": lcs.WTinyLFU,
    "3L-Cache": lcs.ThreeLCache,
    "Belady": lcs.Belady,
}
# Of the hash table: 2^18 objects before it has to grow. The default of 2^24 takes longer to clear than a trace takes.
HASH_POWER = 18


def opened(path):
    """The trace with the next use of each object, which Belady needs."""
    return lcs.TraceReader(path, lcs.TraceType.ORACLE_GENERAL_TRACE, lcs.ReaderInitParam())


def main(trace, warm_up, out, *sizes):
    fields = lcs.ReaderInitParam(delimiter=",", has_header=False, has_header_set=True, obj_id_is_num=True, obj_id_is_num_set=True)
    fields.time_field, fields.obj_id_field, fields.obj_size_field = 1, 2, 3
    with tempfile.TemporaryDirectory() as folder, open(out, "w") as lines:
        with_next = os.path.join(folder, "trace")
        # The library's wrapper of this function does not take its own wrapper of a reader.
        reader = lcs.TraceReader(trace, lcs.TraceType.CSV_TRACE, fields)
        lcs.Util.convert_to_oracleGeneral(reader._reader, with_next)
        for name, policy in POLICIES.items():
            ratios = []
            for size in sizes:
                cache = policy(cache_size=int(size), hashpower=HASH_POWER)
                cache.process_trace(opened(with_next), 0, int(warm_up))
                ratios.append(cache.process_trace(opened(with_next), int(warm_up))[1])
            print(name, *ratios, sep="\t", file=lines, flush=True)


main(*sys.argv[1:])
