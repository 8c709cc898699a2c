# The program in an image:
#   docker build -t rewright .
#   docker run --rm -v "$PWD:/models" -w /models rewright optimize IN.onnx -o OUT.onnx
FROM debian:12 AS build
COPY . /rewright
WORKDIR /rewright
RUN bash tools/install.sh \
 && cmake --preset release -DREWRIGHT_TESTS=OFF -DREWRIGHT_BENCH=OFF \
 && cmake --build --preset release \
 && cpack -G DEB --config build/release/CPackConfig.cmake -B /package

FROM debian:12-slim
COPY --from=build /package/*.deb /tmp/
RUN apt-get update \
 && apt-get install -y --no-install-recommends /tmp/*.deb \
 && rm -rf /tmp/*.deb /var/lib/apt/lists/*
ENTRYPOINT ["rewright"]
