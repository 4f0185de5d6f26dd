// What applications do with redigo: `groups PORT`. Prints the replies as JSON.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Strings instead of the bytes of a reply.
func shown(reply interface{}) interface{} {
	switch value := reply.(type) {
	case []byte:
		return string(value)
	case []interface{}:
		shownValues := []interface{}{}
		for _, each := range value {
			shownValues = append(shownValues, shown(each))
		}
		return shownValues
	}
	return reply
}

func must(reply interface{}, err error) interface{} {
	if err != nil {
		log.Fatal(err)
	}
	return shown(reply)
}

func main() {
	pool := &redis.Pool{
		MaxIdle: 2,
		Dial:    func() (redis.Conn, error) { return redis.Dial("tcp", "127.0.0.1:"+os.Args[1]) },
		TestOnBorrow: func(conn redis.Conn, _ time.Time) error {
			_, err := conn.Do("PING")
			return err
		},
	}
	defer pool.Close()
	conn := pool.Get()
	defer conn.Close()

	must(conn.Do("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"))
	must(conn.Do("XADD", redis.Args{}.Add("s", "1-1").AddFlat(map[string]string{"item": "tea"})...))
	delivered := must(conn.Do("XREADGROUP", "GROUP", "g", "ann", "COUNT", 1, "BLOCK", 1000, "STREAMS", "s", ">"))
	claimed := must(conn.Do("XCLAIM", "s", "g", "bob", 0, "1-1", "JUSTID"))
	acknowledged := must(conn.Do("XACK", "s", "g", "1-1"))

	conn.Send("MULTI")
	conn.Send("SET", "k", "v", "EX", 60)
	conn.Send("GET", "k")
	transaction := must(conn.Do("EXEC"))

	first := must(conn.Do("SET", "lock", "ann", "NX", "PX", 60000))
	second := must(conn.Do("SET", "lock", "bob", "NX", "PX", 60000))
	script := must(redis.NewScript(1, "return redis.call('GET', KEYS[1])").Do(conn, "k"))

	subscriber := redis.PubSubConn{Conn: pool.Get()}
	if err := subscriber.Subscribe("news"); err != nil {
		log.Fatal(err)
	}
	subscriber.Receive()
	must(conn.Do("PUBLISH", "news", "tea"))
	heard := string(subscriber.Receive().(redis.Message).Data)
	subscriber.Unsubscribe()
	subscriber.Receive()
	subscriber.Conn.Close()

	replies := []interface{}{delivered, claimed, acknowledged, transaction, first, second, script, heard}
	text, _ := json.Marshal(replies)
	fmt.Println(string(text))
}
