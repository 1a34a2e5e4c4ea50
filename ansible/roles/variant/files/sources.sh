# shellcheck shell=bash
# The four ways to get the sources of a variant, for build-variant: take_KIND prints the directory to build in and says on stderr what
# is wrong when it cannot. Uses field, with_go, project, run, name and work of build-variant.

: "${project:?}" "${run:?}" "${name:?}" "${work=}"
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
export GIT_TERMINAL_PROMPT=0

take_module() {
  local module version answer sum
  module=$(field module)
  version=$(field version)
  cd -- "$work" || return # outside any module
  answer=$(with_go go mod download -json "$module@$version") || {
    jq -r '.Error // empty' <<<"$answer" >&2
    return 1
  }
  sum=$(field sum)
  if [[ -n $sum && $(jq -r .Sum <<<"$answer") != "$sum" ]]; then
    printf '%s@%s has checksum %s, and the plan says %s\n' "$module" "$version" "$(jq -r .Sum <<<"$answer")" "$sum" >&2
    return 1
  fi
  jq -r .Dir <<<"$answer"
}

take_git() {
  local clone
  clone=$("$project/scripts/fetch-git" "$(field repo)" "$(field revision)") || return
  git -C "$clone" worktree prune
  git -C "$clone" worktree add --quiet --force --detach "$work/source" "$(field revision)" >&2 || return
  printf '%s\n' "$work/source"
}

# What lay on the user's machine and was brought to this one (tsduel/places/ssh/pack.py), or where it lies here.
brought_or() {
  if [[ -f $run/sources/$name ]]; then printf '%s\n' "$run/sources/$name"; else printf '%s\n' "$1"; fi
}

# What git sees of a checkout and is there: tracked files that are not deleted, and new ones that are not ignored.
list_files() {
  local file
  git -C "$1" ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    if [[ -e $1/$file || -L $1/$file ]]; then printf '%s\0' "$file"; fi
  done
}

# A copy, changes and new files included, so that the build writes nothing into the checkout.
take_path() {
  local path copy=$work/source dirty tree
  path=$(brought_or "$(field path)") || return
  if [[ -f $path ]]; then
    mkdir -- "$work/brought" && tar -C "$work/brought" -xzf "$path" || return
    path=$work/brought
  fi
  git clone --quiet --shared --no-checkout -- "$path" "$copy" >&2 || return
  git -C "$copy" reset --quiet "$(field revision)" >&2 || return
  list_files "$path" | tar -C "$path" --no-recursion --null --verbatim-files-from -T - -cf - | tar -C "$copy" -xf - || return
  tree=$(git -C "$copy" add --all && git -C "$copy" write-tree) || return
  dirty=
  if [[ $tree != "$(git -C "$copy" rev-parse 'HEAD^{tree}')" ]]; then
    dirty=$(printf '%s' "$tree" | sha256sum)
    git -C "$copy" diff --binary --cached HEAD >"$work/publish/source.diff" || return
  fi
  git -C "$copy" reset --quiet || return
  if [[ ${dirty%% *} != "$(field dirty)" ]]; then
    printf '%s changed since the plan was made; plan again\n' "$(field path)" >&2
    return 1
  fi
  printf '%s\n' "$copy"
}

take_binary() {
  local path actual
  path=$(brought_or "$(field path)")
  install -m 0755 -- "$path" "$work/output" || return
  actual=$(sha256sum -- "$work/output") || return
  if [[ sha256:${actual%% *} != "$(field revision)" ]]; then
    printf '%s changed since the plan was made; plan again\n' "$(field path)" >&2
    return 1
  fi
  printf '%s\n' "$work"
}

# What a source leaves outside the work directory.
leave_source() {
  if [[ -f $work/source/.git ]]; then
    git -C "$work/source" worktree remove --force "$work/source"
  fi
}
