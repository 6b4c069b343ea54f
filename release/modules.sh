#!/usr/bin/env bash
# modules.sh: prints the folders of the modules that users import or install, the root first.
cd "$(dirname "$0")/.." || exit 1
echo .
git ls-files '*/go.mod' | sed 's#/go.mod$##' | grep -vE '^(tests|examples)(/|$)' | sort | sed 's#^#./#'
