# shellcheck shell=bash
# The lab: machines with other kernels, in QEMU without KVM. ./run sources this file, which uses its say, fail, need and build.
#
# A scenario (lab/scenarios/NAME.sh) is a script that runs inside a machine (lab/machines/NAME). Its exit code says whether its assertions
# held. This file boots machines, watches them and decides the result: a boot that dies, hangs or stays silent is a failure, and so is one whose
# kernel complained. machine.bash makes the machines. affected.bash chooses the scenarios that a change may affect. lanes.bash runs several at once.
# shellcheck source=lab/machine.bash
. lab/machine.bash
# shellcheck source=lab/affected.bash
. lab/affected.bash
# shellcheck source=lab/lanes.bash
. lab/lanes.bash

LAB_OUT=${LAB_OUT:-$PWD/target/lab} # console logs
LAB_LONG=0

lab_help() {
  cat <<'TEXT'
usage: ./run lab [--long]                       all scenarios, each on its machines
       ./run lab --affected                     the scenarios that your change may affect, as ./run ci runs them
       ./run lab affected [FILE...]             list them (for a change of these files)
       ./run lab list                           list the machines and scenarios
       ./run lab SCENARIO [MACHINE] [--long]    one of them, on a machine of your choice (some take MACHINE/ROUTE)
       ./run lab shell MACHINE                  a console on a machine (leave it with exit; Ctrl-A X powers it off)

LAB_PROGRAM=FILE uses that program instead of a new build. LAB_JOBS=1 runs one machine at a time; the default is two.
Scenarios are tests: exit code 0 means that all passed. Consoles are kept in target/lab/. --long runs the longer variants, and on more machines.
More: docs/lab.md
TEXT
}

lab_header() { # SCENARIO KEY: from the comment lines that a scenario starts with
  sed -n "s/^# $2: *//p" "lab/scenarios/$1.sh"
}

lab_names() { # FOLDER: the names of its files
  local file
  for file in lab/"$1"/*; do basename "$file" .sh; done
}

lab_list() {
  local name
  printf 'machines\n'
  for name in $(lab_names machines); do printf '  %-16s %s\n' "$name" "$(sed -n '1s/^# //p' "lab/machines/$name")"; done
  printf 'scenarios\n'
  for name in $(lab_names scenarios); do
    printf '  %-16s %s (%s)\n' "$name" "$(lab_header "$name" shows)" "$(lab_header "$name" machines)"
  done
}

lab_known() { # FOLDER NAME
  [[ $2 =~ ^[a-z0-9-]+$ ]] && { [ -f "lab/$1/$2" ] || [ -f "lab/$1/$2.sh" ]; } && return
  fail "no such ${1%s} in the lab: $2; there are: $(lab_names "$1" | paste -sd ' ')" 2
}

# --- running -------------------------------------------------------------------------------------------------------------------

# Occasionally the emulator fails on a kernel that changes its own code while two processors run it ("Oops: int3"). Kernels do that near
# the end of their boot, when they load modules, and when they have found a better clock. A machine that panics before it is up, and before
# anything of ours has begun, is booted again, at most twice. The output says so.
lab_boot() { # SCENARIO MACHINE ROUTE LOG
  local attempt
  for attempt in 1 2 3; do
    lab_boot_once "$@"
    if grep -q '^lab: up' "$4" || ! grep -q 'Kernel panic' "$4"; then return; fi
    cp "$4" "${4%.log}.panic-$attempt.log"
    printf '    the kernel panicked while it booted (attempt %s)\n' "$attempt"
  done
}

# Boots a machine for a scenario and waits for its end. Its console goes to LOG. LAB_STATUS is QEMU's exit code, or 137 past the deadline.
lab_boot_once() { # SCENARIO MACHINE ROUTE LOG
  local deadline
  deadline=$(lab_header "$1" "deadline$([ "$LAB_LONG" = 0 ] || echo " long")")
  machine_files "$2" "$1" "${4%.log}.initrd"
  machine_command "$2" "lab.scenario=$1 lab.long=$LAB_LONG lab.route=$3 $(lab_header "$1" kernel)"
  LAB_STATUS=0
  timeout --signal=KILL "${deadline:-600}" "${MACHINE_COMMAND[@]}" -serial "file:$4" </dev/null >"$4.qemu" 2>&1 || LAB_STATUS=$?
  rm -f "$MACHINE_INITRD"
  sed -i 's/\r//g' "$4"
  [ -s "$4.qemu" ] || rm "$4.qemu"
}

# Assumes nothing: a scenario has passed only if the guest's last line says so, and the kernel has not complained since it began.
lab_judge() { # SCENARIO LOG STATUS: prints what is wrong, if anything
  local word
  word=$(sed -n "s/^lab: end $1: //p" "$2" | tail -n 1)
  case $3:$word in
    0:passed) sed "1,/^lab: begin $1/d" "$2" | grep -m 1 -E 'Kernel panic|BUG:|Oops:|Out of memory|blocked for more than' || true ;;
    137:*) echo "not done at its deadline${word:+, although it said $word}" ;;
    *:) echo "the machine went without a last word (QEMU's exit code $3: $(tail -qn 1 "$2.qemu" 2>/dev/null))" ;;
    *) sed -n 's/^lab: wrong: //p' "$2" | grep . || echo "$word" ;;
  esac
}

# A scenario with a header "# fails:" passes if the lab fails it with those words; * stands for any others.
lab_expected() { # SCENARIO WRONG: prints what is wrong, if anything
  local words
  words=$(lab_header "$1" fails)
  if [ -z "$words" ]; then
    printf '%s' "$2"
  elif [[ $2 != *$words* ]]; then
    printf 'the lab should have failed it with "%s", but said "%s"' "$words" "${2:-passed}"
  fi
}

lab_file() { # "SCENARIO MACHINE[/ROUTE]" SUFFIX: prints where a file of a pair is
  local name=${1/ /-}
  printf '%s/%s.%s' "$LAB_OUT" "${name/\//-}" "$2"
}

lab_one() { # SCENARIO MACHINE[/ROUTE]: sets LAB_WRONG, empty if it passed
  local log machine=${2%%/*} route=${2#"${2%%/*}"} began=$SECONDS wrong
  log=$(lab_file "$1 $2" log)
  : >"$log"
  lab_boot "$1" "$machine" "${route#/}" "$log"
  wrong=$(lab_expected "$1" "$(lab_judge "$1" "$log" "$LAB_STATUS")")
  sed -n 's/^lab: | /    /p' "$log"
  if [ -n "$wrong" ]; then
    tail -n 40 "$log" | sed 's/^/    > /'
    printf 'lab %-16s on %-17s FAILED after %3s s: %s\n' "$1" "$2" "$((SECONDS - began))" "$wrong"
  else
    printf 'lab %-16s on %-17s passed in %3s s\n' "$1" "$2" "$((SECONDS - began))"
  fi
  printf '    console: %s\n' "$(realpath --relative-to=. "$log")"
  LAB_WRONG=$wrong
}

lab_machines() { # SCENARIO: its machines, and with --long the additional ones
  lab_header "$1" machines
  if [ "$LAB_LONG" = 1 ]; then lab_header "$1" "machines long"; fi
}

lab_pairs() { # SCENARIO: with each of its machines
  local machine
  for machine in $(lab_machines "$1"); do printf '%s %s\n' "$1" "$machine"; done
}

lab_all() { # every pair
  local scenario
  for scenario in $(lab_names scenarios); do lab_pairs "$scenario"; done
}

lab_shell() { # MACHINE
  local rows columns
  [ -z "${1:-}" ] && fail "which machine? $(lab_names machines | paste -sd ' ')" 2
  lab_known machines "$1"
  [ -t 0 ] || fail "a shell needs a terminal; for anything else write a scenario (docs/lab.md)" 2
  read -r rows columns < <(stty size)
  lab_prepare
  machine_files "$1" shell "$LAB_OUT/shell-$1.initrd"
  machine_command "$1" "lab.scenario=shell lab.rows=$rows lab.columns=$columns"
  say "booting $1; leave it with exit, or switch it off with Ctrl-A X"
  "${MACHINE_COMMAND[@]}" -serial mon:stdio
  rm -f "$MACHINE_INITRD"
}

lab_prepare() {
  mkdir -p "$LAB_OUT"
  machine_needs
  LAB_FULLBORE=${LAB_PROGRAM:-$(build --dist)} # as in packages
}

lab_main() {
  local arguments=() word pairs lanes
  for word in "$@"; do
    if [ "$word" = --long ]; then LAB_LONG=1; else arguments+=("$word"); fi
  done
  set -- "${arguments[@]}"
  case ${1:-all} in
    help | --help | -h) lab_help; return ;;
    list) lab_list; return ;;
    shell) shift; lab_shell "$@"; return ;;
    affected) shift; affected_pairs "$@"; return ;;
    all) mapfile -t pairs < <(lab_all) ;;
    --affected) mapfile -t pairs < <(affected_pairs) ;;
    -*) lab_help >&2; fail "no such flag: $1" 2 ;;
    *)
      lab_known scenarios "$1"
      if [ -n "${2:-}" ]; then lab_known machines "${2%%/*}"; pairs=("$1 $2"); else mapfile -t pairs < <(lab_pairs "$1"); fi
      if [ "${#pairs[@]}" = 0 ]; then
        fail "$1 is played only at length: ./run lab --long $1, or on a machine of your choice: ./run lab $1 MACHINE" 2
      fi ;;
  esac
  if [ "${#pairs[@]}" = 0 ]; then printf 'lab: nothing to play\n'; return; fi
  lanes=$(lanes_wanted)
  lab_prepare
  lanes_play "$lanes" "${pairs[@]}"
}
