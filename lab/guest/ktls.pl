#!/usr/bin/perl
# Gives the kernel keys for sending on a loopback connection, once for each TLS version and cipher, and checks that a record of the right
# length for the cipher arrives at the other end. Structures: linux/tls.h.
use strict;
use warnings;
use Socket;

use constant { SOL_TCP => 6, TCP_ULP => 31, SOL_TLS => 282, TLS_TX => 1 };

# name, number in linux/tls.h, bytes of: explicit IV, key, salt, overhead of a TLS 1.2 record, the same for 1.3
my @ciphers = (
    ["AES-128-GCM",       51, 8,  16, 4, 24, 17],
    ["AES-256-GCM",       52, 8,  32, 4, 24, 17],
    ["ChaCha20-Poly1305", 54, 12, 32, 0, 16, 17],
);

sub pair {
    socket(my $listener, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
    bind($listener, sockaddr_in(0, INADDR_LOOPBACK)) and listen($listener, 1) or die "listen: $!";
    socket(my $near, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
    connect($near, getsockname($listener)) or die "connect: $!";
    accept(my $far, $listener) or die "accept: $!";
    return ($near, $far);
}

for my $version ([0x0303, "TLS 1.2", 5], [0x0304, "TLS 1.3", 6]) {
    for my $cipher (@ciphers) {
        my ($name, $number, $iv, $key, $salt) = @$cipher;
        my ($near, $far) = pair();
        setsockopt($near, SOL_TCP, TCP_ULP, "tls") or die "TCP_ULP tls: $!\n";
        my $info = pack("SS", $version->[0], $number) . "i" x $iv . "k" x $key . "s" x $salt . "\0" x 8;
        setsockopt($near, SOL_TLS, TLS_TX, $info) or die "$version->[1] $name: $!\n";
        syswrite($near, "x" x 1000) == 1000 or die "$version->[1] $name: short write\n";
        sysread($far, my $record, 4096);
        my $expected = 1000 + 5 + $cipher->[$version->[2]];
        length($record) == $expected or die "$version->[1] $name: a record of @{[length $record]} bytes, not $expected\n";
        print "the kernel encrypts $version->[1] with $name\n";
    }
}
