/*
 * wire INTERFACE FILE OUT: watches packets that arrive on an interface, and counts those that contain any 15 bytes of FILE in a row, unchanged.
 *
 * No part of a film that is sent over TLS may be on a wire in clear. The file's bytes have to be random, so that no others look like them:
 * it searches every place of every packet for each eight bytes that begin at a multiple of eight.
 *
 * It writes its counts to OUT at its start, and on SIGTERM: packets, bytes, packets in clear. A packet that the
 * kernel dropped before it could be seen counts as one in clear.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bits in the filter: 2^24 for half a million words of a film of 4 MiB, so that one in thirty others has to be looked up. */
#define FILTER_BITS 24

static uint64_t *words;
static size_t word_count;
static uint8_t filter[1 << (FILTER_BITS - 3)];
static volatile sig_atomic_t is_over;

static void end(int signal) { (void)signal; is_over = 1; }
static void die(const char *what) { perror(what); exit(1); }

static uint32_t place(uint64_t word) { return (word * 0x9e3779b97f4a7c15u) >> (64 - FILTER_BITS); }
static int by_value(const void *a, const void *b)
{
	uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
	return (one > other) - (one < other);
}

static void load(const char *path)
{
	FILE *file = fopen(path, "rb");
	struct stat status;

	if (!file || fstat(fileno(file), &status))
		die(path);
	word_count = status.st_size / 8;
	words = malloc(8 * word_count + 8);
	if (!words || fread(words, 8, word_count, file) != word_count)
		die(path);
	fclose(file);
	for (size_t at = 0; at < word_count; at++)
		filter[place(words[at]) >> 3] |= 1 << (place(words[at]) & 7);
	qsort(words, word_count, 8, by_value);
}

static int is_clear(const uint8_t *bytes, size_t count)
{
	for (size_t at = 0; at + 8 <= count; at++) {
		uint64_t word;
		uint32_t where;

		memcpy(&word, bytes + at, 8);
		where = place(word);
		if (filter[where >> 3] & 1 << (where & 7) && bsearch(&word, words, word_count, 8, by_value))
			return 1;
	}
	return 0;
}

static void tell(const char *path, const uint64_t counts[3])
{
	char part[4096];
	FILE *out;

	snprintf(part, sizeof(part), "%s.part", path);
	out = fopen(part, "w");
	if (!out)
		die(part);
	fprintf(out, "packets %lu\nbytes %lu\nclear %lu\n", counts[0], counts[1], counts[2]);
	fclose(out);
	if (rename(part, path))
		die(path);
}

int main(int argc, char **argv)
{
	static uint8_t packet[1 << 17];
	struct sockaddr_ll where = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	struct sigaction action = { .sa_handler = end };
	struct tpacket_stats lost;
	socklen_t length = sizeof(lost);
	uint64_t counts[3] = { 0 };
	int room = 256 << 20, wire;

	if (argc != 4) {
		fprintf(stderr, "usage: wire INTERFACE FILE OUT\n");
		return 2;
	}
	load(argv[2]);
	sigaction(SIGTERM, &action, NULL);
	wire = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
	where.sll_ifindex = if_nametoindex(argv[1]);
	if (wire < 0 || !where.sll_ifindex || setsockopt(wire, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)))
		die(argv[1]);
	if (bind(wire, (struct sockaddr *)&where, sizeof(where)))
		die(argv[1]);
	tell(argv[3], counts);
	while (!is_over) {
		ssize_t bytes = recv(wire, packet, sizeof(packet), 0);

		if (bytes < 0 && errno != EINTR && errno != ENETDOWN)
			die("recv");
		if (bytes > 0) {
			counts[0]++;
			counts[1] += bytes;
			counts[2] += is_clear(packet, bytes);
		}
	}
	/* What is still to be read. */
	for (ssize_t bytes; (bytes = recv(wire, packet, sizeof(packet), MSG_DONTWAIT)) > 0;) {
		counts[0]++;
		counts[1] += bytes;
		counts[2] += is_clear(packet, bytes);
	}
	if (!getsockopt(wire, SOL_PACKET, PACKET_STATISTICS, &lost, &length))
		counts[2] += lost.tp_drops;
	tell(argv[3], counts);
	return 0;
}
