#!/usr/bin/perl
# usage: sockets.pl PID ADDRESS
# Asks the kernel about each connection of another process with a peer at ADDRESS, and prints the CPU that handled its last packet. It takes a copy of
# the descriptor (pidfd_getfd), because neither ss nor /proc shows that.
use strict;
use warnings;
use Socket;

use constant { PIDFD_OPEN => 434, PIDFD_GETFD => 438, SO_INCOMING_CPU => 49 };

my ($pid, $address) = @ARGV;
my $process = syscall(PIDFD_OPEN, $pid + 0, 0);
die "pidfd_open: $!" if $process < 0;
for my $link (glob "/proc/$pid/fd/*") {
    next unless (readlink($link) // "") =~ /^socket:/;
    my ($number) = $link =~ /(\d+)$/;
    my $descriptor = syscall(PIDFD_GETFD, $process, $number + 0, 0);
    next if $descriptor < 0; # closed since
    open(my $socket, "+<&=", $descriptor) or die "fdopen: $!";
    my $peer = getpeername($socket) or next;
    next unless length($peer) == 16 && inet_ntoa((sockaddr_in($peer))[1]) eq $address;
    print unpack("i", getsockopt($socket, SOL_SOCKET, SO_INCOMING_CPU)), "\n";
}
