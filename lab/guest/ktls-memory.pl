#!/usr/bin/perl
# Measures the kernel's memory for TLS in bytes per connection: gives keys for sending to many connected sockets, and checks how much the
# kernel's own memory has grown. Structures: linux/tls.h.
use strict;
use warnings;
use Socket;

use constant { SOL_TCP => 6, TCP_ULP => 31, SOL_TLS => 282, TLS_TX => 1, PAIRS => 1000 };

sub kernel_bytes {
    open(my $meminfo, "<", "/proc/meminfo") or die "meminfo: $!";
    my %kib = map { /^(\w+):\s+(\d+)/ ? ($1, $2) : () } <$meminfo>;
    return 1024 * ($kib{Slab} + $kib{Percpu} + $kib{VmallocUsed});
}

sub grown { # BYTES-BEFORE: since then, for each connection
    return sprintf("%.0f", (kernel_bytes() - $_[0]) / PAIRS);
}

socket(my $listener, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
bind($listener, sockaddr_in(0, INADDR_LOOPBACK)) and listen($listener, PAIRS) or die "listen: $!";
my @pairs = map {
    socket(my $near, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
    connect($near, getsockname($listener)) or die "connect: $!";
    accept(my $far, $listener) or die "accept: $!";
    [$near, $far];
} 1 .. PAIRS;

my $info = pack("SS", 0x0304, 51) . "i" x 8 . "k" x 16 . "s" x 4 . "\0" x 8; # TLS 1.3, AES-128-GCM
my $before = kernel_bytes();
for my $pair (@pairs) {
    setsockopt($pair->[0], SOL_TCP, TCP_ULP, "tls") or die "TCP_ULP tls: $!\n";
    setsockopt($pair->[0], SOL_TLS, TLS_TX, $info) or die "TLS_TX: $!\n";
}
print "kernel memory for a connection: ", grown($before), " bytes to seal\n";
