# What applications do with redis-rb: `ruby groups.rb PORT`. Prints the replies as JSON.
require "json"
require "redis"

redis = Redis.new(port: ARGV[0].to_i)
redis.xgroup(:create, "s", "g", "0", mkstream: true)
ids = %w[tea rum].map { |item| redis.xadd("s", { item: item }, maxlen: 100, approximate: true) }
delivered = redis.xreadgroup("g", "ann", "s", ">", count: 1)["s"].map { |id, fields| [ids.index(id), fields] }
pending = redis.xpending("s", "g")["size"]
claimed = redis.xclaim("s", "g", "bob", 0, ids[0]).map { |id, fields| [ids.index(id), fields] }
acknowledged = redis.xack("s", "g", ids[0])
transaction = redis.multi do |pipe|
  pipe.set("k", "v", ex: 60)
  pipe.get("k")
end
lock = [redis.set("lock", "ann", nx: true, px: 60_000), redis.set("lock", "bob", nx: true, px: 60_000)]
script = redis.eval("return redis.call('GET', KEYS[1])", keys: ["k"])
heard = nil
subscriber = Redis.new(port: ARGV[0].to_i)
subscriber.subscribe("news") do |on|
  on.subscribe { |_channel, _count| redis.publish("news", "tea") }
  on.message do |_channel, message|
    heard = message
    subscriber.unsubscribe
  end
end
puts JSON.generate([delivered, pending, claimed, acknowledged, transaction, lock, script, heard])
