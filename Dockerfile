ARG BASE=python:3.12-slim

FROM ${BASE} AS builder
# A virtual environment keeps what is installed apart from the base's own packages.
RUN python3 -m venv --without-pip /venv
WORKDIR /src
COPY requirements.lock ./
RUN pip --python /venv install --no-cache-dir --no-compile --require-hashes --requirement requirements.lock
COPY LICENSE README.md pyproject.toml ./
COPY ci_score ci_score
# The build backend came with the lock; once the package is built nobody needs it.
RUN pip --python /venv install --no-cache-dir --no-compile --no-build-isolation --no-deps . \
    && pip --python /venv uninstall --yes flit_core

FROM ${BASE}
LABEL org.opencontainers.image.title="ci-score" \
      org.opencontainers.image.description="Performance review of ML training in pull requests" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=builder /venv/lib /usr/local/lib
RUN python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash \
    -x '/(ensurepip|idlelib|lib2to3|pip|test|tests|tkinter|turtledemo)/' /usr/local/lib/python3*
ENTRYPOINT ["python3", "-I", "-m", "ci_score"]
CMD ["run"]
