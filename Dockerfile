# A release builds this with BASE named by digest.
ARG BASE=docker.io/library/python:3.12-slim

FROM ${BASE} AS builder
# A virtual environment, so that what is installed lies apart from the base's own packages.
RUN python3 -m venv --without-pip /venv
COPY requirements.lock /src/
RUN pip --python /venv install --no-cache-dir --no-compile --require-hashes --requirement /src/requirements.lock
COPY LICENSE README.md pyproject.toml /src/
COPY ci_score /src/ci_score
# The build backend came with the lock; once the package is built, nothing needs it.
RUN pip --python /venv install --no-cache-dir --no-compile --no-build-isolation --no-deps /src \
    && pip --python /venv uninstall --yes flit_core

FROM ${BASE}
LABEL org.opencontainers.image.title="ci-score" \
      org.opencontainers.image.description="Performance review of ML training in pull requests" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=builder /venv/lib /usr/local/lib
# The base has no bytecode, and a container forgets what it compiled: every start would compile anew.
# Unchecked, because no source in an image changes, and layers may change the times that a check compares.
RUN python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash \
    -x '/(ensurepip|idlelib|lib2to3|pip|test|tests|tkinter|turtledemo)/' /usr/local/lib/python3*

# No USER and no WORKDIR: the runner mounts a workspace that belongs to another user, and works in it.
# -I: that workspace is a stranger's checkout. A json.py in it, or a PYTHONPATH, must not be run as ours.
ENTRYPOINT ["python3", "-I", "-m", "ci_score"]
CMD ["run"]
