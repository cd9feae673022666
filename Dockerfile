# leakdet on CPUs; docs/nightly.md says how to run it.
#
#   docker build -t leakdet .
#   docker build -t leakdet:cuda --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu130 .
#   docker run --rm leakdet train experiment=smoke trainer.max_epochs=1 hydra.run.dir=/tmp/run   # does it work?

FROM python:3.11-slim AS build
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=export,parquet,cloud,cluster
RUN python -m venv /opt/leakdet
ENV PATH=/opt/leakdet/bin:$PATH
WORKDIR /src
# torch in a layer of its own, which a change of leakdet does not fetch again
COPY constraints.txt ./
RUN pip install --no-cache-dir -c constraints.txt --extra-index-url "$TORCH_INDEX" torch
COPY pyproject.toml README.md LICENSE ./
COPY conf conf
COPY src src
RUN pip install --no-cache-dir -c constraints.txt --extra-index-url "$TORCH_INDEX" ".[$EXTRAS]"

FROM python:3.11-slim
COPY --from=build /opt/leakdet /opt/leakdet
# what demos and plots keep goes where any user may write
ENV PATH=/opt/leakdet/bin:$PATH XDG_CACHE_HOME=/tmp/cache MPLCONFIGDIR=/tmp/matplotlib
RUN useradd --create-home --uid 1000 leakdet
USER leakdet
WORKDIR /data
ENTRYPOINT ["leakdet"]
CMD ["--help"]
