# tracediff for machines without a GPU: compare, show, report, query, comment.
#   docker build -t tracediff .
#   docker run --rm --user "$(id -u):$(id -g)" -v "$PWD:/work" tracediff compare main pr --html report.html
FROM python:3.12-slim AS wheel
COPY pyproject.toml README.md LICENSE /src/
COPY tracediff /src/tracediff
COPY tracediff_emulator /src/tracediff_emulator
COPY templates /src/templates
COPY fixtures/demo /src/fixtures/demo
COPY fixtures/bundles/gc5 /src/fixtures/bundles/gc5
COPY fixtures/bundles/hog300 /src/fixtures/bundles/hog300
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /src

FROM python:3.12-slim
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[comment]"
RUN useradd --create-home tracediff
USER tracediff
# Any user of the host may be given with --user: none of them has a home here.
ENV TRACEDIFF_CACHE=/tmp/tracediff-cache
WORKDIR /work
ENTRYPOINT ["tracediff"]
