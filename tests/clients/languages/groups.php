<?php
// What applications do with phpredis: `php groups.php PORT`. Prints the replies as JSON.
$redis = new Redis();
$redis->connect('127.0.0.1', (int) $argv[1]);
$redis->xGroup('CREATE', 's', 'g', '0', true);
$ids = array_map(fn($item) => $redis->xAdd('s', '*', ['item' => $item], 100, true), ['tea', 'rum']);
$delivered = array_values($redis->xReadGroup('g', 'ann', ['s' => '>'], 1)['s']);
$pending = $redis->xPending('s', 'g')[0];
$claimed = array_values($redis->xClaim('s', 'g', 'bob', 0, [$ids[0]], []));
$acknowledged = $redis->xAck('s', 'g', [$ids[0]]);
$transaction = $redis->multi()->set('k', 'v', 60)->get('k')->exec();
$lock = [$redis->set('lock', 'ann', ['nx', 'px' => 60000]), $redis->set('lock', 'bob', ['nx', 'px' => 60000])];
$script = $redis->eval("return redis.call('GET', KEYS[1])", ['k'], 1);
$receivers = $redis->publish('news', 'tea');
echo json_encode([$delivered, $pending, $claimed, $acknowledged, $transaction, $lock, $script, $receivers]);
