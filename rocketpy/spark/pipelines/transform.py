"""transform: a topic through SQL expressions into another topic, as a stream with a checkpoint.

The expressions make the columns of the sink: `body` must be among them, tags, keys, properties and messageGroup may be.
"""

from __future__ import annotations

from ..job import add_trigger, arguments, run_stream, say, session, stream

DEFAULT_COLUMNS = ("body", "tags", "keys", "properties", "flag")


def main(argv: list[str] | None = None) -> int:
    parser = arguments("transform", "Write what SQL expressions make of topics into another topic.")
    parser.add_argument("--to", required=True, metavar="TOPIC", help="where the messages go")
    parser.add_argument("--to-name-server", metavar="HOST:PORT", help="of another cluster")
    parser.add_argument("--select", action="append", metavar="SQL", help="a column, such as 'upper(cast(body as string)) as body'; repeat")
    parser.add_argument("--where", metavar="SQL", help="only rows for which this holds")
    add_trigger(parser)
    options = parser.parse_args(argv)
    rows = stream(session("transform"), options)
    if options.where:
        rows = rows.filter(options.where)
    rows = rows.selectExpr(*(options.select or DEFAULT_COLUMNS))
    sink = rows.writeStream.format("rocketmq").options(nameServer=options.to_name_server or options.name_server, topic=options.to)
    say(f"{run_stream(sink, options)} messages read, the rest is in {options.to}")
    return 0
