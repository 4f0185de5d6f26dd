<?php
// Symfony Messenger: `php messenger.php PORT` sends messages at once and delayed, receives, acknowledges and rejects them.
require_once 'Symfony/Component/Messenger/autoload.php';
require_once 'Symfony/Component/Messenger/Bridge/Redis/autoload.php';

use Symfony\Component\Messenger\Bridge\Redis\Transport\Connection;
use Symfony\Component\Messenger\Bridge\Redis\Transport\RedisTransport;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Stamp\DelayStamp;

class Order
{
    public $item;

    public function __construct($item)
    {
        $this->item = $item;
    }
}

function expect($condition, $claim)
{
    if (!$condition) {
        fwrite(STDERR, "not so: $claim\n");
        exit(1);
    }
}

function receive($transport)
{
    return array_values([...$transport->get()]);
}

$transport = new RedisTransport(Connection::fromDsn("redis://127.0.0.1:{$argv[1]}/messages/orders/worker"));
$transport->setup();
$transport->send(new Envelope(new Order('tea')));
$transport->send(new Envelope(new Order('rum'), [new DelayStamp(300)]));
$first = receive($transport)[0];
expect('tea' === $first->getMessage()->item, 'what was sent at once is received first');
$transport->ack($first);
$deadline = microtime(true) + 30;
while (!($second = receive($transport)) && microtime(true) < $deadline) {
    usleep(10000);
}
expect('rum' === $second[0]->getMessage()->item, 'what was delayed is received later');
$transport->reject($second[0]);
expect(!receive($transport), 'nothing is left');
