"""Write anew the files that are made from code: CRDs and golden manifests. `make generate`."""

from __future__ import annotations

from pathlib import Path

from redis_operator.api.crd import crds, to_yaml

ROOT = Path(__file__).parent.parent
HEADER = "# Made by `make generate` from src/redis_operator/api; do not edit.\n"


def generated() -> dict[Path, str]:
    """Every generated file with its content."""
    return {ROOT / "config" / "crd" / name: HEADER + to_yaml(crd) for name, crd in crds().items()}


def main() -> None:
    """Write what is missing or different, and say so."""
    for path, text in generated().items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
