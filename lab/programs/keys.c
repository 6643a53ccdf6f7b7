/*
 * keys send ADDRESS PORT FILE PAUSE_BYTES: gives the kernel TLS 1.2 AES-128-GCM keys of a connection, which are always the same, and sends
 * FILE over it. Past PAUSE_BYTES it waits until /tmp/keys-go exists; /tmp/keys-waits says that it waits.
 *
 * keys receive PORT FILE: takes the records of such a connection as they are, compares their contents with FILE, and prints how many carry it
 * in clear. It decrypts none: only the kernel and its cards encrypt or decrypt here.
 *
 * This is the smallest program that shows what a kernel does with given keys (docs/notes/bond-offload.md).
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef TCP_ULP
#define TCP_ULP 31
#endif
#ifndef SOL_TLS
#define SOL_TLS 282
#endif

/* A full record (RFC 5246 section 6.2.1), which the headers for programs do not have. */
#define RECORD_BYTES 16384

#define HEAD 5
#define NONCE 8
#define TAG 16

static void die(const char *what) { perror(what); exit(1); }

static int transmit(const char *to, int port, const char *path, off_t pause)
{
	struct tls12_crypto_info_aes_gcm_128 keys = { .info = { TLS_1_2_VERSION, TLS_CIPHER_AES_GCM_128 }, .key = "not for any use",
						      .salt = "salt", .iv = "explicit" };
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int file = open(path, O_RDONLY), connection = socket(AF_INET, SOCK_STREAM, 0), tries = 0;
	struct stat status;
	off_t at = 0;
	char end;

	inet_pton(AF_INET, to, &address.sin_addr);
	if (file < 0 || fstat(file, &status))
		die(path);
	while (connect(connection, (struct sockaddr *)&address, sizeof(address))) {
		if (++tries > 100)
			die("connect");
		usleep(100000);
	}
	if (setsockopt(connection, IPPROTO_TCP, TCP_ULP, "tls", 4) || setsockopt(connection, SOL_TLS, TLS_TX, &keys, sizeof(keys)))
		die("keys");
	while (at < status.st_size) {
		if (pause && at >= pause) {
			pause = 0;
			close(open("/tmp/keys-waits", O_CREAT | O_WRONLY, 0600));
			while (access("/tmp/keys-go", F_OK))
				usleep(20000);
		}
		/* A record at a time, so that records begin where the other end expects them. */
		if (sendfile(connection, file, &at, RECORD_BYTES - at % RECORD_BYTES) <= 0)
			die("sendfile");
	}
	shutdown(connection, SHUT_WR);
	return read(connection, &end, 1) < 0;
}

static size_t whole(int from, unsigned char *to, size_t count)
{
	size_t have = 0;

	while (have < count) {
		ssize_t more = read(from, to + have, count - have);

		if (more <= 0)
			break;
		have += more;
	}
	return have;
}

static int receive(int port, const char *path)
{
	static unsigned char record[1 << 16], film[1 << 16];
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
	int file = open(path, O_RDONLY), listener = socket(AF_INET, SOCK_STREAM, 0), one = 1, connection;
	unsigned long records = 0, clear = 0, bytes = 0;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (file < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 1))
		die("listen");
	connection = accept(listener, NULL, NULL);
	while (whole(connection, record, HEAD) == HEAD) {
		size_t length = record[3] << 8 | record[4], text = length - NONCE - TAG;

		if (record[0] != 23 || length <= NONCE + TAG || whole(connection, record + HEAD, length) != length)
			break;
		if (read(file, film, text) != (ssize_t)text)
			break;
		records++;
		bytes += text;
		clear += !memcmp(record + HEAD + NONCE, film, text);
	}
	printf("records %lu clear %lu bytes %lu\n", records, clear, bytes);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "send"))
		return transmit(argv[2], atoi(argv[3]), argv[4], atoll(argv[5]));
	if (argc == 4 && !strcmp(argv[1], "receive"))
		return receive(atoi(argv[2]), argv[3]);
	fprintf(stderr, "usage: keys send ADDRESS PORT FILE PAUSE_BYTES | keys receive PORT FILE\n");
	return 2;
}
