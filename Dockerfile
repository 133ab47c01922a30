# One static binary and the certificate authorities; nothing else, and no shell.
#   docker build --build-arg VERSION=$(git describe --tags --always) -t breakwater .
#   docker run --read-only -v breakwater:/data -p 127.0.0.1:8080:8080 breakwater
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY cmd cmd
COPY internal internal
COPY receiver receiver
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
# As releases are made: internal/release.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
    -ldflags "-s -w -buildid= -X github.com/breakwaterhq/breakwater/internal/cli.version=$VERSION" \
    -o /image/breakwater ./cmd/breakwater
COPY LICENSE NOTICE /image/licenses/
RUN mkdir -p /image/data /image/etc/ssl/certs && cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/

FROM scratch
COPY --from=build /image/breakwater /breakwater
COPY --from=build /image/licenses /licenses
COPY --from=build /image/etc /etc
COPY --from=build --chown=65532:65532 --chmod=0700 /image/data /data
ENV BREAKWATER_DATA_DIR=/data BREAKWATER_LISTEN=:8080
WORKDIR /data
VOLUME /data
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["/breakwater", "health", "--ready"]
ENTRYPOINT ["/breakwater"]
CMD ["serve"]
