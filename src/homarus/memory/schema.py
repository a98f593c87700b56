"""The derived index: its tables, and the bits and kinds in them. OpenClaw's names stay, because people have tools for them.

Everything here can be deleted and rebuilt from the notes. Raise VERSION when a table, the tokenizer or what `terms`
makes of a line changes: the old file is then moved aside and the index built anew.
"""

from __future__ import annotations

QUESTION, TIME, HEADING, PATH, NUMBER, CODE, PROPER, RETAIN, FIRST, CONTINUED, STRUCK = (1 << bit for bit in range(11))
_LABELS = """todo note notes decision decided idea question answer q a fix bug warning tip reminder summary context goal plan
status next done action actions result results remember important update why how what source link links tags date
name kind aliases title user assistant me"""
LABELS = frozenset(_LABELS.split())  # what stands before a colon and is nobody's name
KINDS = {"W": "world", "B": "experience", "O": "opinion", "S": "observation"}
KIND_NAMES = frozenset([*KINDS.values(), "note", "heading", "turn"])


def kind_names(given: tuple[str, ...]) -> frozenset[str]:
    """Return full kind names for letters or names; one that is unknown matches nothing."""
    return frozenset(KINDS.get(name.upper(), name.lower()) for name in given)


VERSION = 15

# Rows of one file get consecutive ids, and at least GAP ids lie unused between two files: the neighbours of a line
# are then `id ± 1`, `id ± 2`, and never belong to another file.
GAP = 3

# Marks belong to words: Indic vowels are marks. `terms.search_text` folds what is stored, so nothing depends on how FTS5 folds.
TOKENIZER = "porter unicode61 remove_diacritics 2 categories ''L* N* Co Mn Mc''"

SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE files(
  id INTEGER PRIMARY KEY, path TEXT NOT NULL, source TEXT NOT NULL, hash TEXT NOT NULL, mtime REAL NOT NULL,
  size INTEGER NOT NULL, stamp TEXT NOT NULL, first_id INTEGER NOT NULL, last_id INTEGER NOT NULL,
  room_id INTEGER NOT NULL, lines INTEGER NOT NULL, words INTEGER NOT NULL, day INTEGER,
  state TEXT NOT NULL DEFAULT '', UNIQUE(source, path)
);
CREATE INDEX files_day ON files(day);

CREATE TABLE lines(
  id INTEGER PRIMARY KEY, file INTEGER NOT NULL, line INTEGER NOT NULL, day INTEGER, first INTEGER, last INTEGER,
  speaker TEXT NOT NULL, kind TEXT NOT NULL, flags INTEGER NOT NULL, size INTEGER NOT NULL, around INTEGER NOT NULL,
  head INTEGER, entities TEXT NOT NULL, text TEXT NOT NULL, terms TEXT
);
CREATE INDEX lines_typed ON lines(kind) WHERE kind IN ('world', 'experience', 'opinion', 'observation');
CREATE VIEW lines_search(id, text) AS SELECT id, coalesce(terms, text) FROM lines;
CREATE VIRTUAL TABLE lines_fts USING fts5(
  text, content='lines_search', content_rowid='id', detail=none, columnsize=0, tokenize='TOKENIZER'
);
CREATE VIRTUAL TABLE lines_vocab USING fts5vocab(lines_fts, 'row');

CREATE TABLE names(file INTEGER NOT NULL, name TEXT NOT NULL, role TEXT NOT NULL, lines INTEGER NOT NULL,
  PRIMARY KEY(file, name, role)) WITHOUT ROWID;

CREATE TABLE chunks(
  id TEXT PRIMARY KEY, path TEXT NOT NULL, source TEXT NOT NULL, start_line INTEGER NOT NULL,
  end_line INTEGER NOT NULL, hash TEXT NOT NULL, model TEXT NOT NULL, text TEXT NOT NULL, embedding BLOB,
  updated_at INTEGER NOT NULL, terms TEXT
);
CREATE INDEX chunks_path ON chunks(source, path);
CREATE VIEW chunks_search(number, text, id, path, source, model, start_line, end_line) AS
  SELECT rowid, coalesce(terms, text), id, path, source, model, start_line, end_line FROM chunks;
CREATE VIRTUAL TABLE chunks_fts USING fts5(
  text, id UNINDEXED, path UNINDEXED, source UNINDEXED, model UNINDEXED, start_line UNINDEXED, end_line UNINDEXED,
  content='chunks_search', content_rowid='number', detail=none, tokenize='TOKENIZER'
);

CREATE TABLE facts(
  id TEXT NOT NULL, file INTEGER NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, path TEXT NOT NULL,
  line INTEGER NOT NULL, end_line INTEGER NOT NULL, mentioned_on INTEGER, occ_from INTEGER, occ_to INTEGER,
  precision TEXT NOT NULL, confidence REAL, origin TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'active',
  superseded_by TEXT, supersedes TEXT NOT NULL DEFAULT '', PRIMARY KEY(file, line)
);
CREATE INDEX facts_id ON facts(id);
CREATE TABLE entities(slug TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, aliases TEXT NOT NULL,
  file INTEGER NOT NULL, PRIMARY KEY(slug, file)) WITHOUT ROWID;
CREATE TABLE fact_entities(file INTEGER NOT NULL, fact_id TEXT NOT NULL, slug TEXT NOT NULL, role TEXT NOT NULL,
  PRIMARY KEY(file, fact_id, slug)) WITHOUT ROWID;

CREATE TABLE opinions(file INTEGER NOT NULL, id TEXT NOT NULL, confidence REAL NOT NULL, evidence TEXT NOT NULL,
  PRIMARY KEY(file, id)) WITHOUT ROWID;
CREATE TABLE origins(file INTEGER NOT NULL, line INTEGER NOT NULL, source TEXT NOT NULL,
  PRIMARY KEY(file, line, source)) WITHOUT ROWID;

CREATE TABLE embedding_cache(
  provider TEXT NOT NULL, model TEXT NOT NULL, provider_key TEXT NOT NULL, hash TEXT NOT NULL,
  embedding BLOB NOT NULL, dims INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  PRIMARY KEY(provider, model, provider_key, hash)
) WITHOUT ROWID;
CREATE INDEX embedding_cache_age ON embedding_cache(updated_at);
CREATE TABLE line_vec(id INTEGER PRIMARY KEY, vec BLOB NOT NULL, words BLOB);
CREATE TABLE word_vec(id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE, vec BLOB NOT NULL);
""".replace("TOKENIZER", TOKENIZER)
