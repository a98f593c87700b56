"""The tables of a fleet and how they grow: numbered steps that first add and only a release later take away."""

from __future__ import annotations

# A step is never changed once it was released. What takes something away names, as its second member, the oldest
# program (its own newest step) that still works afterwards: a worker older than that refuses to start.
STEPS: tuple[tuple[str, int], ...] = (
    (
        """
create table worker (
  name text primary key,
  address text not null,
  version int not null,
  started timestamptz not null default clock_timestamp(),
  beat timestamptz not null default clock_timestamp(),
  draining bool not null default false,
  homes int not null default 0
);
create table home (
  home text primary key,
  tenant text not null default '',
  quota jsonb not null default '{}',
  format int not null default 1,
  created timestamptz not null default clock_timestamp()
);
create table lease (
  home text primary key references home on delete cascade,
  epoch bigint not null default 0,
  worker text,
  since timestamptz,
  wish text
) with (fillfactor = 70);
create index lease_worker on lease (worker);
create index lease_wish on lease (wish) where wish is not null;
-- A file is what `file` says of it, and then the lines from its size on, by their offset.
create table line (
  home text not null references home on delete cascade,
  path text collate "C" not null,
  at bigint not null,
  epoch bigint not null,
  bytes bytea not null,
  primary key (home, path, at)
);
create table file (
  home text not null references home on delete cascade,
  path text collate "C" not null,
  epoch bigint not null,
  mode int not null,
  size bigint not null default 0,
  mtime bigint,
  sha256 bytea,
  bytes bytea,
  object text,
  link text,
  primary key (home, path)
);
create table mail (
  home text not null references home on delete cascade,
  key text not null,
  body bytea not null,
  at timestamptz not null default clock_timestamp(),
  primary key (home, key)
);
create table timer (
  home text primary key references home on delete cascade,
  due timestamptz not null
);
create index timer_due on timer (due);

-- Every change of a home is one call of one of these: it holds the lease for as long as the commit takes, or does nothing.
-- `for share` makes a take-over wait for a write that has begun, and a write that waited for a take-over see it.
create function held(the_home text, the_epoch bigint, the_worker text) returns bool language plpgsql as $$
begin
  perform 1 from lease where home = the_home and epoch = the_epoch and worker = the_worker for share;
  return found;
end $$;

create function append_lines(the_home text, the_epoch bigint, the_worker text,
    paths text[], modes int[], offsets bigint[], pieces bytea[]) returns bool language plpgsql as $$
begin
  if not held(the_home, the_epoch, the_worker) then return false; end if;
  insert into file (home, path, epoch, mode)
    select distinct on (p) the_home, p, the_epoch, m from unnest(paths, modes) as t(p, m) on conflict do nothing;
  -- A repeated call says the same again.
  insert into line (home, path, at, epoch, bytes)
    select the_home, p, a, the_epoch, b from unnest(paths, offsets, pieces) as t(p, a, b)
    on conflict (home, path, at) do update set epoch = excluded.epoch, bytes = excluded.bytes;
  return true;
end $$;

create function put_files(the_home text, the_epoch bigint, the_worker text, paths text[], modes int[], sizes bigint[],
    mtimes bigint[], digests bytea[], contents bytea[], objects text[], links text[]) returns bool language plpgsql as $$
begin
  if not held(the_home, the_epoch, the_worker) then return false; end if;
  delete from line where home = the_home and path = any(paths);
  insert into file (home, path, epoch, mode, size, mtime, sha256, bytes, object, link)
    select the_home, p, the_epoch, m, s, t, d, b, o, l
    from unnest(paths, modes, sizes, mtimes, digests, contents, objects, links) as f(p, m, s, t, d, b, o, l)
    on conflict (home, path) do update set epoch = excluded.epoch, mode = excluded.mode, size = excluded.size,
      mtime = excluded.mtime, sha256 = excluded.sha256, bytes = excluded.bytes, object = excluded.object,
      link = excluded.link;
  return true;
end $$;

-- '0' is the character after '/': everything below a folder lies between the two.
create function remove_paths(the_home text, the_epoch bigint, the_worker text, paths text[]) returns bool
language plpgsql as $$
begin
  if not held(the_home, the_epoch, the_worker) then return false; end if;
  delete from line using unnest(paths) as t(p) where home = the_home and (path = p or (path > p || '/' and path < p || '0'));
  delete from file using unnest(paths) as t(p) where home = the_home and (path = p or (path > p || '/' and path < p || '0'));
  return true;
end $$;

-- Said twice, the second time finds nothing under the old name and must leave the new one alone.
create function move_path(the_home text, the_epoch bigint, the_worker text, old text, new text) returns bool
language plpgsql as $$
begin
  if not held(the_home, the_epoch, the_worker) then return false; end if;
  if not exists (select from file where home = the_home and path = old) then return true; end if;
  perform remove_paths(the_home, the_epoch, the_worker, array[new]);
  update line set path = new || substr(path, length(old) + 1), epoch = the_epoch
    where home = the_home and (path = old or (path > old || '/' and path < old || '0'));
  update file set path = new || substr(path, length(old) + 1), epoch = the_epoch
    where home = the_home and (path = old or (path > old || '/' and path < old || '0'));
  return true;
end $$;
""",
        1,
    ),
    (
        """
-- Homes are counted as they come and go: nobody has to look at a million rows to know how many there are.
create table tally (name text primary key, count bigint not null);
insert into tally select 'homes', count(*) from home;
create function count_homes() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    update homarus.tally set count = count + (select count(*) from added) where name = 'homes';
  else
    update homarus.tally set count = count - (select count(*) from gone) where name = 'homes';
  end if;
  return null;
end $$;
create trigger home_added after insert on home referencing new table as added
  for each statement execute function count_homes();
create trigger home_gone after delete on home referencing old table as gone
  for each statement execute function count_homes();
""",
        1,
    ),
    (
        """
-- Lines of many homes in one commit. Returns the homes that were held, which are those that have them now.
create function append_homes(homes text[], epochs bigint[], workers text[],
    owners text[], paths text[], modes int[], offsets bigint[], pieces bytea[]) returns text[] language plpgsql as $$
declare mine text[];
begin
  select coalesce(array_agg(found.home), '{}') into mine from (
    select l.home, l.epoch from lease l join unnest(homes, epochs, workers) as t(h, e, w)
      on l.home = t.h and l.epoch = t.e and l.worker = t.w order by l.home for share of l) as found;
  insert into file (home, path, epoch, mode)
    select distinct on (o, p) o, p, e, m from unnest(owners, paths, modes) as t(o, p, m) join unnest(homes, epochs) as k(h, e) on h = o
    where o = any(mine) on conflict do nothing;
  insert into line (home, path, at, epoch, bytes)
    select o, p, a, e, b from unnest(owners, paths, offsets, pieces) as t(o, p, a, b) join unnest(homes, epochs) as k(h, e) on h = o
    where o = any(mine) on conflict (home, path, at) do update set epoch = excluded.epoch, bytes = excluded.bytes;
  return mine;
end $$;
""",
        1,
    ),
)
VERSION = len(STEPS)
FORMAT = 1  # of the rows of a home: a worker does not take a home that a newer one wrote
