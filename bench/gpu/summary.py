#!/usr/bin/env python3
"""Geometric means over the table of bench/gpu/model.py: the optimized graph over the best peer and over the
rule-based baseline, by device, batch and precision. Rows whose outputs differ are named and left out."""
import argparse
import csv
import math
from collections import defaultdict


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", nargs="?", default="bench/results/gpu.csv")
    groups = defaultdict(list)
    with open(parser.parse_args().table, newline="") as file:
        for row in csv.DictReader(file):
            if row["contestant"] != "optimized":
                continue
            if row["equal"] != "1":
                print(f"{row['model']}, batch {row['batch']}, {row['precision']}: outputs differ, left out")
                continue
            groups[row["device"], int(row["batch"]), row["precision"]].append(row)
    for (device, batch, precision), rows in sorted(groups.items()):
        line = f"{device}\n  batch {batch}, {precision}: {len(rows)} models"
        for column in ("over_best_peer", "over_baseline", "of_roofline"):
            values = [float(row[column]) for row in rows if row[column]]
            line += f", {column} {geometric_mean(values):.3f} ({len(values)})" if values else f", {column} unmeasured"
        print(line)


if __name__ == "__main__":
    main()
