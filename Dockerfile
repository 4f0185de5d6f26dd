# Headrace with its data in the volume /data, as a user without rights, for amd64 and arm64:
#
#   docker build -t headrace . && docker run -p 127.0.0.1:6379:6379 -v headrace:/data headrace
#   docker buildx build --platform linux/amd64,linux/arm64 -t headrace .
#
# Words after the image name are server options (`docker run headrace --requirepass secret`), or a command: `redis-server
# --appendonly yes`, `redis-cli -h db`, `sh` (container/entrypoint). Every directive is a variable too
# (`-e HEADRACE_REQUIREPASS=secret`). Options win over variables, and variables over a configuration file.
#
# Three directives differ from those of a server that is started by hand. Inside a container every peer comes from another
# address, so protected mode would refuse all of them: it is off, and the published port is the boundary. The append-only
# file is on, so that a stop has nothing to write but the last second. And a volume that has a dump.rdb and no log yet, as
# an image of Redis leaves it, begins its log with that file.
#
# The container starts as root, gives the volume to the user 6379 and continues as that user. `--user 6379:6379` starts
# as that user at once, which `--cap-drop ALL` needs; with any user of your own, give that user the volume. Only /data is
# written to: `--read-only` works. The container is healthy once the dataset is loaded and while writes are accepted, on any
# port, with TLS, and with or without a password (container/health.py).
#
# redis-cli and its companions come from Debian: everybody knows them, and security updates come with the base image.
# `--start-interval` needs Docker 25 or newer: remove it to build with an older one.
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
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends redis-tools && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 6379 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin headrace \
 && install -d -o headrace -g headrace /data
COPY --from=build /opt/headrace /opt/headrace
COPY container /opt/headrace/container
RUN ln -s headrace /opt/headrace/bin/redis-server
ENV PATH=/opt/headrace/bin:$PATH PYTHONDONTWRITEBYTECODE=1 HEADRACE_DIR=/data HEADRACE_APPENDONLY=yes \
    HEADRACE_AOF_START_FROM_RDB=yes HEADRACE_PROTECTED_MODE=no
WORKDIR /data
VOLUME /data
EXPOSE 6379
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5m --start-interval=1s CMD ["python", "-I", "/opt/headrace/container/health.py"]
ENTRYPOINT ["/opt/headrace/container/entrypoint"]
