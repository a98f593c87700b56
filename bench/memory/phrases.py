"""Words and sentences for `bench.memory.notes`. Plain data; questions are worded unlike the statements they ask for."""

from __future__ import annotations

from typing import NamedTuple

PEOPLE = ["Anna", "Boris", "Carla", "Dmitri", "Elena", "Farid", "Greta", "Hiro", "Ines", "Jonas", "Katya", "Liam"]
THINGS = ["bicycle", "boiler", "camera", "lease", "printer", "router", "tent", "violin", "washing machine", "wardrobe"]
DETAILS = [
    "as far as I know",
    "at least for now",
    "she or he told me",
    "so it seems",
    "that is the plan",
    "and is glad",
]

# statement, question, what can stand for {value}
DAILY = [
    (
        "{who} moved to {value} last month, {detail}.",
        "Where does {who} live now?",
        ["Lyon", "Graz", "Porto", "Malmö", "Turin"],
    ),
    (
        "{who} is allergic to {value}, {detail}.",
        "What food must {who} not eat?",
        ["peanuts", "shellfish", "celery", "eggs"],
    ),
    (
        "Lent {who} the {value}; it should come back by spring.",
        "What did I let {who} borrow?",
        ["drill", "ladder", "projector", "tent"],
    ),
    (
        "{who} started a job as {value}, {detail}.",
        "What does {who} do for a living?",
        ["a nurse", "a welder", "a librarian", "a pilot"],
    ),
    (
        "{who} got a {value} from the shelter and named it Pixel.",
        "What pet does {who} have?",
        ["kitten", "greyhound", "parrot", "tortoise"],
    ),
    (
        "{who} broke an ankle while {value} and needs crutches.",
        "How did {who} get hurt?",
        ["skiing", "climbing", "dancing", "skating"],
    ),
    (
        "Paid {who} {value} euros back for the concert tickets.",
        "How much money did I return to {who}?",
        ["45", "60", "85", "120"],
    ),
    (
        "{who} is learning {value} in evening classes, {detail}.",
        "Which language is {who} studying?",
        ["Portuguese", "Arabic", "Finnish", "Korean"],
    ),
    (
        "{who}'s daughter will get married in {value}.",
        "When is the wedding in {who}'s family?",
        ["June", "September", "October"],
    ),
    (
        "{who} sold the old car and rides {value} to work.",
        "How does {who} commute?",
        ["the tram", "a moped", "a cargo bike", "the ferry"],
    ),
]
FILLER = [
    "Called {who} about the {thing}, nobody picked up.",
    "The {thing} makes a strange noise again.",
    "Groceries, laundry, and {n} minutes of running.",
    "{who} came by for coffee and we talked about nothing in particular.",
    "Looked for the papers of the {thing}, found them after {n} minutes.",
    "It rained the whole afternoon.",
    "Reminded {who} that the {thing} has to be checked before winter.",
    "Wrote {n} lines of the report, {who} wants to read it.",
]

SERVICES = ["billing", "search-index", "mail-relay", "image-store", "auth-proxy", "report-builder", "cache-warmer"]
HOSTS = ["heron", "kestrel", "osprey", "plover"]
KEYS = ["maxBatchSize", "retry_limit", "pool.size", "HTTP_TIMEOUT_MS", "queue-depth", "gcThreshold"]
RUNBOOK = {
    "Setup": [
        ("Listens on port {port}, behind the proxy on {host}.", "Which port does {service} use?"),
        ("`{key}` is set to {n}; higher values made {service} swap.", "What value does {key} have in {service}?"),
        (
            "Secrets of {service} live in the vault under team/{service}.",
            "Where are the credentials of {service} kept?",
        ),
    ],
    "Trouble": [
        ("{code} means that the certificate ran out: renew it and reload.", "How do I fix {code} in {service}?"),
        (
            "When the disk of {service} fills up, delete /var/tmp/{service}/spool.",
            "{service} has no space left, what now?",
        ),
        ("A restart of {service} takes {n} minutes because it reads its journal.", "Why is {service} slow to start?"),
    ],
    "People": [
        ("{who} owns {service} and is on call on weekdays.", "Who is responsible for {service}?"),
        (
            "Ask before deploying {service} on a Friday; last time it took the shop down.",
            "When may {service} not be released?",
        ),
    ],
}

# a topic as headings write it, and a shorter way to speak of it
TOPICS = [
    ("the heating of the office", "heating"),
    ("the summer party", "the party"),
    ("paper invoices", "invoices"),
    ("the new website", "the website"),
    ("travel expenses", "expenses"),
    ("the parking spaces", "parking"),
    ("interns from the university", "interns"),
    ("the coffee machine", "coffee"),
    ("remote work on Fridays", "Fridays"),
    ("the backup of customer data", "backups"),
    ("the price list for next year", "prices"),
    ("the broken lift", "the lift"),
    ("training for first aid", "first aid"),
    ("the contract with the cleaners", "the cleaners"),
    ("visitors from Japan", "the visitors"),
    ("noise in the open-plan room", "noise"),
]
DOUBTS = [
    "I fear that it costs too much and nobody will thank us.",
    "My worry is the time it takes, we are short of hands.",
    "Last year this went wrong because nobody was told.",
    "The lawyers may not like it at all.",
]
SMALL_TALK = ["Good point, anyone else?", "Let us not take all day over this.", "Thanks. Other views?"]
PLANS = [
    "we ask three firms for offers and take the cheapest ({topic}).",
    "everything stays as it is until summer ({topic}).",
    "we try it for eight weeks and look again ({topic}).",
    "a small group of volunteers plans it ({topic}).",
]
DEADLINES = ["Friday", "the end of the month", "the next meeting", "Easter"]

OPINIONS = [
    (
        "What does {who} like to eat?",
        [
            "Loves mushroom risotto.",
            "Always orders ramen.",
            "Is fond of dark chocolate.",
            "Cooks lentil soup with joy.",
        ],
    ),
    (
        "Which sports does {who} do?",
        ["Plays handball on Mondays.", "Goes rowing before work.", "Swims a mile every week.", "Took up fencing."],
    ),
    (
        "How should messages to {who} be written?",
        ["Wants short replies without emoji.", "Prefers voice notes over long texts.", "Asks for the summary first."],
    ),
    (
        "What music does {who} listen to?",
        [
            "Listens to Bach while cooking.",
            "Goes to jazz concerts.",
            "Has every record of Björk.",
            "Hums old sea shanties.",
        ],
    ),
]


class Language(NamedTuple):
    """Facts in one language."""

    people: list[str]
    values: list[str]
    facts: list[tuple[str, str]]
    filler: list[str]


LANGUAGES = [
    Language(
        ["Jürgen", "Sabine", "Öznur"],
        ["München", "Köln", "Zürich"],
        [
            ("{who} zieht im Herbst nach {value} um.", "Wohin zieht {who}?"),
            ("{who} verträgt keine Milch und trinkt nur Hafermilch.", "Was verträgt {who} nicht?"),
            ("Der Zahnarzttermin von {who} ist am Dienstag in {value}.", "Wann hat {who} einen Termin beim Zahnarzt?"),
        ],
        ["Heute lange mit {who} telefoniert.", "{who} lässt grüßen."],
    ),
    Language(
        ["Lucía", "Íñigo", "Begoña"],
        ["Sevilla", "Córdoba", "Málaga"],
        [
            ("{who} abrió una panadería en {value}.", "¿Qué negocio tiene {who}?"),
            ("El gato de {who} se llama Bigotes.", "¿Cómo se llama el gato de {who}?"),
            ("{who} viaja a {value} cada verano en tren.", "¿Adónde viaja {who} en verano?"),
        ],
        ["Hoy hablé un rato con {who}.", "{who} manda saludos."],
    ),
    Language(
        ["Ольга", "Сергей", "Наташа"],
        ["Казань", "Тверь", "Пермь"],
        [
            ("{who} купила билет на поезд в город {value}.", "Куда {who} купила билет?"),
            ("У {who} аллергия на орехи.", "На что аллергия у {who}?"),
            ("{who} работает врачом в больнице.", "Где работает {who}?"),
        ],
        ["Сегодня звонили {who}.", "Долго гуляли в парке, {who} тоже."],
    ),
    Language(
        ["田中さん", "鈴木さん", "山本さん"],
        ["京都", "札幌", "長崎"],
        [
            ("{who}は来月{value}へ引っ越します。", "{who}の引っ越し先はどこですか"),
            ("{who}は猫を二匹飼っています。", "{who}は猫を何匹飼っていますか"),
            ("{who}の誕生日は七月七日です。", "{who}の誕生日はいつですか"),
        ],
        ["今日は{who}と電話で話しました。", "{who}は元気そうでした。"],
    ),
    Language(
        ["王芳", "李强", "张敏"],
        ["成都", "杭州", "西安"],
        [
            ("{who}下个月搬到{value}工作。", "{who}要搬到哪里"),
            ("{who}对花生过敏，不能吃。", "{who}对什么过敏"),
            ("{who}的车停在地下二层。", "{who}的车停在哪里"),
        ],
        ["今天和{who}通了电话。", "{who}最近很忙。"],
    ),
]
