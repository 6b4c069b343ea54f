#!/usr/bin/env bash
# picture.sh FOLDER: takes the picture of the dashboard, FOLDER/dashboard.png. make pictures runs it.
#
# A Prometheus scrapes a load for a minute, and answers the dashboard's queries. page.jsx draws the
# answers with Grafana's own panel components, which npm fetches, and Chromium takes the picture.
set -euo pipefail
pictures=$(cd "${1:?}" && pwd)
cd "$(dirname "$0")"
command -v npm >/dev/null || {
  echo "${0##*/}: there is no npm, so docs/pictures/dashboard.png is left as it is: install Node.js 20 or later, with npm" >&2
  exit 1
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Not here: npm's packages have Go files and documents, which would count as ours.
packages=${XDG_CACHE_HOME:-${HOME:?}/.cache}/holdfast-dashboard
mkdir -p "$packages"
cp package.json package-lock.json "$packages"
npm ci --prefix "$packages" --ignore-scripts --no-audit --no-fund --loglevel=error
(cd .. && ./ensure-prometheus.sh && HOLDFAST_TEST_LOAD=1m go test -count=1 -run TestDashboardShowsALoad ./command -answers "$scratch/answers.json")
[ -s "$scratch/answers.json" ] || { echo "${0##*/}: the load was not run: is there a Prometheus?" >&2 && exit 1; }
NODE_PATH=$packages/node_modules "$packages/node_modules/.bin/esbuild" page.jsx --bundle --minify --format=esm --target=es2022 --jsx=automatic --log-level=warning \
  --define:process.env.NODE_ENV='"production"' --alias:answers="$scratch/answers.json" \
  --loader:.woff2=dataurl --loader:.woff=empty --loader:.ttf=empty --outdir="$scratch/page"
mkdir -p "$scratch/page/public/build"
cp -R "$packages/node_modules/@grafana/ui/dist/public/img" "$scratch/page/public/build/img"
echo '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="page.css"><body><script type="module" src="page.js"></script>' >"$scratch/page/index.html"
(cd .. && ./ensure-chromium.sh && go test -count=1 -run TestDashboardPicture ./ui -dashboard "$scratch/page" -pictures "$pictures")
