"""Settings of a build in a variant's `env:`, by their names; all other variables are of the run alone."""

from collections.abc import Mapping

_NAMES = (
    "GOFLAGS GOEXPERIMENT GOARCH GOAMD64 GO386 GOARM GOARM64 GOMIPS GOMIPS64 GOPPC64 GORISCV64 GOFIPS140 GOWORK "
    "CGO_ENABLED CGO_CFLAGS CGO_CPPFLAGS CGO_CXXFLAGS CGO_FFLAGS CGO_LDFLAGS CC CXX FC AR PKG_CONFIG PKG_CONFIG_PATH "
    "CGO_CFLAGS_ALLOW CGO_CPPFLAGS_ALLOW CGO_CXXFLAGS_ALLOW CGO_LDFLAGS_ALLOW EXTRA_GO_BUILD_TAGS"
)
BUILD = frozenset(_NAMES.split())
"""They reach the build of this variant; GOFLAGS comes behind our own."""
_REFUSED = {
    "GOTOOLCHAIN": "say `go: go1.26.8` for the variant",
    "GOOS": "a program of another system does not run here; leave it out",
    **dict.fromkeys(
        (
            "GOROOT",
            "GOPATH",
            "GOMODCACHE",
            "GOCACHE",
            "GOENV",
            "GOBIN",
            "GO111MODULE",
            "GOTMPDIR",
            "GOHOSTARCH",
            "GOHOSTOS",
        ),
        "builds have directories and modes of ours; leave it out",
    ),
    **dict.fromkeys(
        ("GOPROXY", "GONOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GOINSECURE", "GOVCS", "GOAUTH"),
        "it is of the machine, and the same for all variants: export it before the command, or `go env -w` it",
    ),
}


def of_build(env: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the build."""
    return {name: value for name, value in env.items() if name in BUILD}


def words(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the settings of the build as scripts/with-go takes them, before its command."""
    return tuple(f"{name}={value}" for name, value in sorted(of_build(env).items()))


def why_not(env: Mapping[str, str], source: str) -> str:
    """Return why a variable has no effect where it stands, in a sentence; "" if all have."""
    for name in env:
        if name in _REFUSED:
            return f"env: {name} would not reach the build: {_REFUSED[name]}"
        if source == "binary" and name in BUILD:
            return f"env: {name} is a setting of the build, and `source: binary` is built already; leave it out"
    return ""
