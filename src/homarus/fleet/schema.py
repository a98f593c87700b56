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
""",
        1,
    ),
)
VERSION = len(STEPS)
FORMAT = 1  # of the rows of a home: a worker does not take a home that a newer one wrote
