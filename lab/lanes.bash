# shellcheck shell=bash
# Runs pairs of a scenario and a machine, several at once. lab.bash sources this file and runs each pair (lab_one).
#
# A lane is a process that runs one pair. Its output is printed whole when it ends. Pairs of a scenario with a header "# alone:" come last, one after
# another. A lane that leaves no verdict was killed, or can't continue: then all lanes end, and no other pair begins.

declare -A LANES=() # the running pairs, by their process
LANES_BEGAN=0 LANES_PAIRS=0 LANES_BEGUN=0 LANES_PASSED=0 LANES_FAILED=()

# One machine keeps about one core busy, though it has two CPUs or four. More than two at once have not been tested for long.
lanes_wanted() { # prints how many machines may run at once
  local cores
  cores=$(nproc)
  [[ ${LAB_JOBS:-1} =~ ^[1-9][0-9]?$ ]] || fail "LAB_JOBS=$LAB_JOBS is not a number of machines; set it to 1, 2 or more, or leave it out" 2
  printf '%s' "${LAB_JOBS:-$((cores < 2 ? cores : 2))}"
}

lanes_play() { # LANES "SCENARIO MACHINE"...
  local lanes=$1 pair together=() alone=(); shift
  for pair in "$@"; do
    if [ -n "$(lab_header "${pair% *}" alone)" ]; then alone+=("$pair"); else together+=("$pair"); fi
  done
  LANES_PAIRS=$# LANES_BEGAN=$SECONDS
  trap 'lanes_end; exit 129' HUP
  trap 'lanes_end; exit 130' INT # Ctrl-C: lanes ignore it, like all background jobs
  trap 'lanes_end; exit 143' TERM
  lanes_fill "$lanes" "${together[@]}"
  lanes_fill 1 "${alone[@]}"
  trap - HUP INT TERM
  lanes_verdict
}

lanes_fill() { # LANES "SCENARIO MACHINE"...: runs these, LANES at once
  local lanes=$1 pair; shift
  for pair in "$@"; do
    if [ "${#LANES[@]}" = "$lanes" ]; then lanes_wait; fi
    lanes_begin "$pair"
  done
  while [ "${#LANES[@]}" != 0 ]; do lanes_wait; done
}

lanes_begin() { # "SCENARIO MACHINE"
  LANES_BEGUN=$((LANES_BEGUN + 1))
  printf 'lab %-16s on %-17s begins, %s of %s\n' "${1% *}" "${1#* }" "$LANES_BEGUN" "$LANES_PAIRS"
  rm -f "$(lab_file "$1" wrong)"
  lane "$1" >"$(lab_file "$1" said)" &
  LANES[$!]=$1
}

lane() { # "SCENARIO MACHINE"
  # shellcheck disable=SC2086 # a pair is two words
  lab_one $1
  printf '%s' "$LAB_WRONG" >"$(lab_file "$1" wrong)"
}

# Waits until a lane ends, prints its output and notes its verdict. Bash 5.2 has a "wait -n" that forgets a lane which ended while something else ran.
lanes_wait() {
  local lane pair said wrong
  until lane=$(lanes_ended); do sleep 0.2 || true; done # a step that is over its budget ends the sleep, too
  pair=${LANES[$lane]} said=$(lab_file "${LANES[$lane]}" said) wrong=$(lab_file "${LANES[$lane]}" wrong)
  unset "LANES[$lane]"
  cat "$said"
  if [ ! -e "$wrong" ]; then
    lanes_broken "$pair"
  elif [ -s "$wrong" ]; then
    LANES_FAILED+=("${pair/ / on }: $(cat "$wrong")")
  else
    LANES_PASSED=$((LANES_PASSED + 1))
  fi
  rm -f "$said" "$wrong"
}

lanes_ended() { # prints a lane that has ended
  local lane
  for lane in "${!LANES[@]}"; do
    if ! kill -0 "$lane" 2>/dev/null; then printf '%s' "$lane"; return; fi
  done
  return 1
}

lanes_broken() { # "SCENARIO MACHINE": ends the lab
  local pair
  for pair in "$1" "${LANES[@]}"; do LANES_FAILED+=("${pair/ / on }: ended before its verdict"); done
  lanes_end
  lanes_verdict || say "a scenario was killed, or the lab cannot continue; see the lines above"
  fail "lab: $((LANES_PAIRS - LANES_BEGUN)) scenarios were not played; to play them, run the lab again"
}

lanes_verdict() { # fails if a pair did
  printf 'lab: %s passed, %s failed in %s s\n' "$LANES_PASSED" "${#LANES_FAILED[@]}" "$((SECONDS - LANES_BEGAN))"
  if [ "${#LANES_FAILED[@]}" != 0 ]; then printf 'lab: failed %s\n' "${LANES_FAILED[@]}"; return 1; fi
}

# Ends all lanes and their machines. A stopped lane starts nothing, so the list of its processes is complete.
lanes_end() {
  local lane
  for lane in "${!LANES[@]}"; do
    kill -STOP "$lane" 2>/dev/null || continue
    # shellcheck disable=SC2046 # a list of numbers
    kill $(descendants "$lane") 2>/dev/null || true
    kill -KILL "$lane" 2>/dev/null || true # a step that is over its budget ends it, too
    wait "$lane" 2>/dev/null || true # bash would say that it was killed
  done
  LANES=()
}
