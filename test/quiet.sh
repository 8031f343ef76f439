#!/usr/bin/env bash
# Shortens the output of `go test -v`: what tests print and how they ended, but
# not that they started.
grep -vE '^=== (RUN|PAUSE|CONT|NAME)' || true
