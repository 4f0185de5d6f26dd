# What applications do with Perl's Redis: `perl groups.pl PORT`. Prints the replies as JSON.
use strict;
use warnings;
use JSON::PP;
use Redis;

my $redis = Redis->new(server => "127.0.0.1:$ARGV[0]");
$redis->xgroup('CREATE', 's', 'g', '0', 'MKSTREAM');
my @ids = map { $redis->xadd('s', 'MAXLEN', '~', 100, '*', 'item', $_) } qw(tea rum);
my $delivered = $redis->xreadgroup('GROUP', 'g', 'ann', 'COUNT', 1, 'STREAMS', 's', '>')->[0][1][0][1];
my $pending = ($redis->xpending('s', 'g'))[0] + 0;
my $claimed = ($redis->xclaim('s', 'g', 'bob', 0, $ids[0]))[0][1];
my $acknowledged = $redis->xack('s', 'g', $ids[0]) + 0;
$redis->multi;
$redis->set('k', 'v', 'EX', 60);
$redis->get('k');
my @transaction = $redis->exec;
my @lock = map { $redis->set('lock', $_, 'NX', 'PX', 60000) } qw(ann bob);
my $script = $redis->eval("return redis.call('GET', KEYS[1])", 1, 'k');
my $heard;
my $subscriber = Redis->new(server => "127.0.0.1:$ARGV[0]");
$subscriber->subscribe('news', sub { $heard = $_[0] });
$redis->publish('news', 'tea');
$subscriber->wait_for_messages(0.05) while !defined $heard;
print encode_json([$delivered, $pending, $claimed, $acknowledged, \@transaction, \@lock, $script, $heard]);
