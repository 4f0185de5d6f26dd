# Headrace with its data in the volume /data, as a user without rights, for amd64 and arm64:
#
#   docker build -t headrace . && docker run -p 6379:6379 -v headrace:/data headrace
#   docker buildx build --platform linux/amd64,linux/arm64 -t headrace .
#
# Words after the image name are server options (`docker run headrace --requirepass secret`), and every directive is a
# variable too (`-e HEADRACE_REQUIREPASS=secret`). Options win over variables, and variables over a configuration file.
#
# Two directives differ from those of a server that is started by hand. Inside a container every peer comes from another
# address, so protected mode would refuse all of them: it is off, and the published port is the boundary. And the
# append-only file is on, so that a stop has nothing to write but the last second.
#
# Only /data is written to: `--read-only` and `--cap-drop ALL` work. With another user (`--user`), give that user the
# volume. With another port, use `-e HEADRACE_PORT=7000`, which tells the server and the health check alike: the container
# is healthy once the dataset is loaded and while writes are accepted, with or without a password.
#
# The image serves metrics and runs no Lua scripts: `EVAL` gets an error. `--build-arg EXTRAS=metrics,scripts` builds one
# that runs them; docs/security.md says what that opens.
#
# The first stage has a C compiler, so that the server is compiled.
FROM python:3.12-bookworm AS build
ARG EXTRAS=metrics
WORKDIR /source
COPY . .
RUN python -m venv --without-pip /opt/headrace \
 && pip --python /opt/headrace/bin/python install --no-cache-dir ".[${EXTRAS}]"

FROM python:3.12-slim-bookworm
RUN useradd --uid 6379 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin headrace \
 && install -d -o headrace -g headrace /data
COPY --from=build /opt/headrace /opt/headrace
ENV PATH=/opt/headrace/bin:$PATH PYTHONDONTWRITEBYTECODE=1 HEADRACE_DIR=/data HEADRACE_APPENDONLY=yes \
    HEADRACE_PROTECTED_MODE=no
USER 6379:6379
WORKDIR /data
VOLUME /data
EXPOSE 6379
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5m CMD ["python", "-I", "-c", "import os, socket; s = socket.create_connection(('127.0.0.1', int(os.environ.get('HEADRACE_PORT', 6379))), 2); s.sendall(b'PING\\r\\n'); assert s.recv(64).startswith((b'+PONG', b'-NOAUTH'))"]
ENTRYPOINT ["headrace"]
