"""The RDB format of Redis 8.10.2, bytes to values and back: files (dump.rdb, AOF bases) and DUMP payloads. No I/O."""
