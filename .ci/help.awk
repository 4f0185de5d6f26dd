# Prints the help of a Makefile: its groups (`##@`), its targets (`name: ... ## text`), its variables (`#: NAME=default text`).
/^#: / {
  split($2, parts, "=")
  text = $0
  sub(/^#: [^ ]+ +/, "", text)
  variables = variables sprintf("  %-16s %s\n", parts[1] "=" parts[2], text)
}
/^##@ / { printf "\n%s\n", substr($0, 5) }
/^[a-z-]+:.* ## / {
  name = $0
  sub(/:.*/, "", name)
  text = $0
  sub(/.* ## /, "", text)
  printf "  make %-14s %s\n", name, text
}
END { printf "\nVariables (with their defaults)\n%s", variables }
