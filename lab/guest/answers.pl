#!/usr/bin/perl
# Parses the responses of one connection on standard input: writes their bodies to standard output, and their status codes to standard error
# on one line. Anything that is not HTTP/1.1 with a length, or ends too early, is an error.
use strict;
use warnings;

my @statuses;
local $/ = "\r\n\r\n";
while (defined(my $head = <STDIN>)) {
    $head =~ m{^HTTP/1\.1 (\d{3}) } or die "not an answer: " . substr($head, 0, 60) . "\n";
    push @statuses, $1;
    my ($left) = $head =~ /^content-length: (\d+)\r$/mi or die "an answer without a length\n";
    while ($left > 0) {
        my $got = read(STDIN, my $part, $left < 65536 ? $left : 65536) or die "an answer ends $left bytes too early\n";
        print $part;
        $left -= $got;
    }
}
print STDERR "@statuses\n";
