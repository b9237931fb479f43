#!/bin/sh
# An executable that is a plain program: it finds the chunk in the directory that its argument names and writes rows as JSON lines.
#
#     CREATE FOREIGN TABLE sizes (chunk timestamptz, frames float8 DEFAULT 0, pixels float8 DEFAULT 0)
#       SERVER … OPTIONS (executable 'count_frames', chunk '5s', stride '0s', timeout '1s', max_rows '1', …);

read -r facts < "$1/chunk.json" # {"start": "…", …, "width": 640, "height": 360, "frames": 50, …}, in one line

width=${facts##*'"width": '} height=${facts##*'"height": '} frames=${facts##*'"frames": '}
width=${width%%[!0-9]*} height=${height%%[!0-9]*} frames=${frames%%[!0-9]*}

printf '{"frames": %d, "pixels": %d}\n' "$frames" $((frames * width * height))
