# docker build -t limpet . && docker run --rm -v "$PWD:/work" --user "$(id -u):$(id -g)" limpet run eval.yml
FROM python:3.11-slim AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.11-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir /wheels/*.whl && useradd --create-home limpet
USER limpet
WORKDIR /work
ENTRYPOINT ["limpet"]
CMD ["--help"]
