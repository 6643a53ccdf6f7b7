"""Prints how many pages of a file are in the page cache, and how many of them belong to a folio of several pages. Needs root."""

import ctypes
import os
import struct
import sys

PAGE = os.sysconf("SC_PAGE_SIZE")
PROT_READ, MAP_SHARED, MADV_RANDOM = 1, 1, 1
# Bits of /proc/kpageflags: the first page of a folio, and the others.
COMPOUND = 1 << 15 | 1 << 16

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]

file = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(file).st_size
start = libc.mmap(None, size, PROT_READ, MAP_SHARED, file, 0)
libc.madvise(start, size, MADV_RANDOM)
there = ctypes.create_string_buffer(-(-size // PAGE))
libc.mincore(start, size, there)
frames = os.open("/proc/self/pagemap", os.O_RDONLY)
flags = os.open("/proc/kpageflags", os.O_RDONLY)
cached = large = 0
for page, is_there in enumerate(there.raw):
    if not is_there & 1:
        continue
    cached += 1
    ctypes.c_char.from_address(start + page * PAGE).value
    (entry,) = struct.unpack("Q", os.pread(frames, 8, (start // PAGE + page) * 8))
    (flag,) = struct.unpack("Q", os.pread(flags, 8, (entry & (1 << 55) - 1) * 8))
    large += bool(flag & COMPOUND)
print(cached, large)
