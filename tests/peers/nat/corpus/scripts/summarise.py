"""A custom script: write the number of files in the output folder into another one."""

import argparse
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--output_dir", type=Path, required=True)
parser.add_argument("--title", default="")
args = parser.parse_args()
names = sorted(path.name for path in args.output_dir.iterdir())
(args.output_dir / "summary.txt").write_text(f"{args.title}: {len(names)}\n", encoding="utf-8")
