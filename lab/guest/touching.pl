# Moves 64 KiB with each system call by which a byte of a film could pass through a program, once: seven into it, and four out of it. The counter of
# such bytes (scenario calls) must see all of them. Numbers of calls are those of x86-64.
use strict;
use warnings;
use Socket;

my $bytes = 65536;
my ($into, $from) = ("\0" x $bytes, "x" x $bytes);
sub vector { pack('PQ', $_[0], $bytes) }
sub message { pack('QLx4PQQQix4', 0, 0, $_[0], 1, 0, 0, 0) }
sub moved { my ($name, $moved) = @_; die "$name moved $moved: $!\n" if $moved != $bytes }

open(my $film, '<', $ARGV[0]) or die "$ARGV[0]: $!\n";
my $file = fileno $film;
my $vector_into = vector($into);
moved('read', syscall(0, $file, $into, $bytes));
moved('pread64', syscall(17, $file, $into, $bytes, 0));
moved('readv', syscall(19, $file, $vector_into, 1));
moved('preadv', syscall(295, $file, $vector_into, 1, 0, 0));
moved('preadv2', syscall(327, $file, $vector_into, 1, 0, 0, 0));

socketpair(my $near, my $far, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die "socketpair: $!\n";
setsockopt($_, SOL_SOCKET, SO_SNDBUF, 8 * $bytes) for $near, $far;
my ($out, $in) = (fileno $near, fileno $far);
my $vector_from = vector($from);
my ($message_from, $message_into) = (message($vector_from), message($vector_into));
# WAITALL is 0x100: all of it at once.
moved('write', syscall(1, $out, $from, $bytes));
moved('recvfrom', syscall(45, $in, $into, $bytes, 0x100, 0, 0));
moved('writev', syscall(20, $out, $vector_from, 1));
moved('recvmsg', syscall(47, $in, $message_into, 0x100));
moved('sendto', syscall(44, $out, $from, $bytes, 0, 0, 0));
moved('sendmsg', syscall(46, $out, $message_from, 0));
