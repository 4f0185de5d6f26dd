# Headrace with its data in the volume /data:
#
#   docker build -t headrace . && docker run -p 6379:6379 -v headrace:/data headrace
#
# Words after the image name are server options, e.g. `--requirepass secret`. Inside a container every peer comes from
# another address, so protected mode would refuse all of them: it is off, and the published port is the boundary.
#
# The container is healthy once the dataset is loaded and while writes are accepted, with or without a password. With
# another --port, tell the health check as well: `-e HEADRACE_PORT=7000`. A stop writes dump.rdb: a large dataset needs
# more than Docker's ten seconds (`docker stop --time 60`), or `--save ""`, which leaves it to the append-only file.
FROM python:3.12-slim-bookworm AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --wheel-dir /wheels '.[metrics]'

FROM python:3.12-slim-bookworm
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels 'headrace[metrics]' \
 && useradd --system --home-dir /data --shell /usr/sbin/nologin headrace \
 && install -d -o headrace -g headrace /data
USER headrace
WORKDIR /data
VOLUME /data
EXPOSE 6379
STOPSIGNAL SIGTERM
ENV HEADRACE_PORT=6379
HEALTHCHECK --interval=10s --timeout=3s --start-period=5m CMD ["python", "-c", "import os, socket; s = socket.create_connection(('127.0.0.1', int(os.environ['HEADRACE_PORT'])), 2); s.sendall(b'PING\\r\\n'); assert s.recv(64).startswith((b'+PONG', b'-NOAUTH'))"]
ENTRYPOINT ["headrace", "--bind", "0.0.0.0", "--port", "6379", "--protected-mode", "no", "--appendonly", "yes", "--dir", "/data"]
