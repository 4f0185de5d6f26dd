"""Commands on connections: login, transactions, publish and subscribe, client-side caching."""
