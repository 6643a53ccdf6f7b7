#!/usr/bin/perl
# usage: crossing.pl PORT SERVER SERVER-PORT up|down OFFSET
# Sits between one viewer and the server, and changes one byte in transit: the byte at OFFSET, on the way up to the server or down to the
# viewer. If the viewer leaves, the server learns of it only after everything that the viewer sent has been passed on.
use strict;
use warnings;
use Socket;

my ($port, $server_address, $server_port, $way, $offset) = @ARGV;
socket(my $listener, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
setsockopt($listener, SOL_SOCKET, SO_REUSEADDR, 1);
bind($listener, sockaddr_in($port, INADDR_LOOPBACK)) and listen($listener, 1) or die "listen: $!";
accept(my $viewer, $listener) or die "accept: $!";
socket(my $server, PF_INET, SOCK_STREAM, 0) or die "socket: $!";
connect($server, sockaddr_in($server_port, inet_aton($server_address))) or die "connect: $!";
$SIG{PIPE} = "IGNORE";

# Two processes, one for each direction.
my $down = fork() // die "fork: $!";
my ($from, $to, $name) = $down ? ($viewer, $server, "up") : ($server, $viewer, "down");
my $passed = 0;
while (my $got = sysread($from, my $bytes, 65536)) {
    my $at = $offset - $passed;
    substr($bytes, $at, 1) ^= "\x01" if $name eq $way && $at >= 0 && $at < $got;
    $passed += $got;
    for (my $sent = 0; $sent < $got;) { $sent += syswrite($to, $bytes, $got - $sent, $sent) // last }
}
exit 0 unless $down;
waitpid($down, 0);
