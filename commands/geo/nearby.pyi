def add_nearby(
    scored: list[tuple[bytes, float]],
    ranges: list[tuple[float, float]],
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
def cell_ranges(
    longitude: float, latitude: float, meters: float, radius: float, width: float, height: float
) -> list[tuple[float, float]]: ...
def shown_distance(size: float) -> bytes: ...
def text_of(score: float) -> bytes: ...
def place_of(score: float) -> tuple[float, float]: ...
