def add_nearby(
    scored: list[tuple[bytes, float]],
    longitude: float,
    latitude: float,
    radius: float,
    half_width: float,
    half_height: float,
    members: list[bytes],
    scores: list[float],
    distances: list[float],
    limit: int,
) -> None: ...
