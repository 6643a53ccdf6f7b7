# shellcheck shell=bash
# Finds what a change may affect: changed files lead to pairs of a scenario and a machine, by the table lab/affected. lab.bash sources this file.

# Prints the commit to compare with: the last one that passed if CI names it (FULLBORE_PASSED), else the one where this branch left main.
affected_base() {
  if [ -n "${FULLBORE_PASSED:-}" ]; then
    git rev-parse --verify --quiet "$FULLBORE_PASSED^{commit}"
  else
    git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null
  fi
}

affected_files() { # prints the files that differ from it, new ones and the old names of moved ones included
  local base
  base=$(affected_base) || return 0
  git -c core.quotePath=false diff --name-only --no-renames "$base"
  git -c core.quotePath=false ls-files --others --exclude-standard
}

affected_row() { # FILE or @NAME: prints the words of its row
  local pattern words
  while read -r pattern words; do
    # shellcheck disable=SC2053 # it is a pattern
    if [[ $1 == $pattern ]]; then printf '%s' "$words"; return; fi
  done < <(grep -v '^#' lab/affected)
  printf all
}

affected_word() { # WORD: prints its pairs
  local word
  case $1 in
    none) ;;
    all) lab_all ;;
    each) for word in $(lab_names scenarios); do lab_pairs "$word" | sed -n 1p; done ;; # sed reads everything: if it stopped early, the list would end
    @*) for word in $(affected_row "$1"); do affected_word "$word"; done ;;
    *:*) printf '%s %s\n' "${1%%:*}" "${1#*:}" ;;
    *) if [ -f "lab/scenarios/$1.sh" ]; then lab_pairs "$1"; fi ;; # a removed scenario has nothing to run
  esac
}

affected_words() { # FILE...: prints the words of all their rows, each once
  local file word
  for file in "$@"; do
    for word in $(affected_row "$file"); do
      [ "$word" != own ] || word=$(basename "$file" .sh)
      printf '%s\n' "$word"
    done
  done | sort -u
}

# Prints the pairs that a change of these files may affect. If no file is named and none has changed, as in a fresh clone of main: those of @core.
affected_pairs() { # [FILE...]
  local files=("$@") word
  if [ "$#" = 0 ]; then mapfile -t files < <(affected_files); fi
  if [ "${#files[@]}" = 0 ]; then
    say "lab: no changed files found, so this is the core"
    affected_word @core | sort -u
  else
    say "lab: scenarios that ${#files[@]} changed files may affect"
    for word in $(affected_words "${files[@]}"); do affected_word "$word"; done | sort -u
  fi
}
