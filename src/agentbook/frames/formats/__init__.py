"""Conversations of other tools, in and out: files of many formats and a `History`.

`model` is the neutral form between a format and the events of the platform, `read` has
`read_conversations`, `registry` lists the formats, `refusal` has what is said of
others, and `messages` and `spans` have what formats share: the names of a message's
parts, and those of a trace's. A format has

- a function that says whether a record, a mapping, is one of this format. A record is a
  line of JSON Lines, an item of a JSON array, a whole JSON document, or a row of a
  table, where what is absent may be None;
- ``read(records, problem)``: the conversations of records, one after another.
  ``problem(reason, raw=None)`` lists what cannot be read of the record that was taken
  last, and the rest goes on;
- and, where the format is written, ``write(conversations, file)``, which streams to an
  open binary file. `registry.SUFFIXES` says for which names `export` calls it.
"""
