# Headrace with its data in the volume /data:
#
#   docker build -t headrace . && docker run -p 6379:6379 -v headrace:/data headrace
#
# Words after the image name are server options, e.g. `--requirepass secret`. Inside a container every peer comes from
# another address, so protected mode would refuse all of them: it is off, and the published port is the boundary.
FROM python:3.12-slim-bookworm AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:3.12-slim-bookworm
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels headrace \
 && useradd --system --home-dir /data --shell /usr/sbin/nologin headrace \
 && install -d -o headrace -g headrace /data
USER headrace
WORKDIR /data
VOLUME /data
EXPOSE 6379
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s CMD ["python", "-c", "import socket; s = socket.create_connection(('127.0.0.1', 6379), 2); s.sendall(b'PING\\r\\n'); assert s.recv(64)"]
ENTRYPOINT ["headrace", "--bind", "0.0.0.0", "--port", "6379", "--protected-mode", "no", "--appendonly", "yes", "--dir", "/data"]
