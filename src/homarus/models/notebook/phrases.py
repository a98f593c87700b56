"""The phrases by which the notebook knows what a message asks for, in English and German. Data only; `grammar.py` reads by it."""

from __future__ import annotations

import re

from homarus.core.patterns import late

_I = re.IGNORECASE
_S = re.IGNORECASE | re.DOTALL
_PLEASE = r"(?:(?:please|pls|bitte|hey|ok(?:ay)?|also|and|und)[,\s]+)*(?:(?:can|could|would|will) you (?:(?:please|kindly|maybe|just) )*|(?:kannst|könntest) du (?:bitte |mal )*)?"
END = late(r"(?<=[.!?？。！؟])[\"”’')\]]*\s+(?=[^\W_]|[\"“„¿(-])")
# A full stop that ends a short form and no sentence, or that makes a number an ordinal ("am 2. Mai").
SHORT = late(
    r"(?:^|[\s(])(?:[^\W\d_]|\d{1,2}|\w+\.\w+|dr|mr|mrs|ms|prof|rev|st|jr|sr|vs|ca|approx|bzw|nr|no|hr|fr|tel|str|ing|dipl|inkl|evtl|ggf|max|min|geb|abt"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|okt|nov|de[cz]|mon|tues?|wed|thu(?:rs)?|fri|sat|sun|mo|di|mi|do|sa|so)\.$",
    _I,
)
ASKED = late(r"[?？؟][\s\"”')\]]*\Z")
# How a question begins that lacks its mark; "did my ankle in" begins so too, and `asks.py` decides.
_WHAT = r"(?:what|which|who|whom|whose|when|where|why|how|wann|wo|wer|wem|wen|was|wie|warum|wieso|woher|wohin|welche[rsmn]?)"
_WH = rf"{_WHAT}(?:'?s|'(?:re|d|ll|ve))?\b"
OPENING = late(
    _WH
    + r"|(?:do|does|did|is|are|am|was|were|can|could|should|would|will|has|have|had|ist|sind|war|hat|habe|haben|kann|muss|soll|gibt|darf|weißt)\b",
    _I,
)
# What stands before a question in the same line, and how one goes on: "…, who wants a maze" and "was sonst" are no questions.
SAID_BEFORE = late(r"(?:[,;:.!]| [–—-]+) +")
LAST_ASKS = late(
    r"(?:what(?:'?s| \w+)|when(?:'?s)?|where(?:'?s)?|how|who(?:'?s| is| was)|which \w+ (?:do|does|did|is|are|was|were|can|should|has|have)"
    r"|(?:do|does|did|is|are|can|could|should|has|have) (?:i|we|you|he|she|it|they|my|our|there|any\w*|some\w*)|wann|wo|wohin|welche[rsmn]? \w+|wie (?:viele?|lange?|oft|hei(?:ß|ss)t|hoch|spät|teuer|war|ist|geht)"
    r"|wer (?:ist|war)|was (?:ist|war|muss|kostet|brauch\w*)|(?:hat|habe|ist|gibt|muss|haben|darf|soll) (?:ich|wir|er|sie|es|man|mein\w*|unser\w*|jemand|da))\b(?: \S+){2,}",
    _I,
)
TO_KNOW = late(rf"\b(?:(?:wants?|needs?) to know|(?:will|möchte|muss) wissen),? (?:if|whether|ob|{_WHAT})\b", _I)
# "When I was six …" and "Wo die Schlüssel liegen: …" ask nothing: the verb does not stand before its subject.
CLAUSE = late(
    _WHAT
    + r"\s+(?:i|we|you|he|she|it|they|the|my|our|your|his|her|their|a|an|to|ich|wir|du|er|es|man|der|die|das|den|mein\w*|unser\w*|ein\w*)\b",
    _I,
)
KEEP = late(
    _PLEASE
    + r"(?:remember|note(?: down)?|keep in mind|memori[sz]e|write (?:down|this down)|make a note|take a note|save|store|record|jot down"
    r"|(?:don'?t|do not|never) forget|fyi|for the record|merke? (?:dir|es dir)?|notiere?(?: dir)?|schreib(?:e)? (?:dir )?auf|vergiss (?:bitte )?(?:nicht|nie)|denk (?:bitte )?(?:dran|daran))"
    r"(?:,?\s+(?:that|this|the fact that|dass|of|bitte|folgendes))*\s*[:,–-]*\s+(.+)",
    _S,
)
TODO = late(
    r"(?:to[- ]?do|task|aufgabe|zu erledigen)\s*[:–-]\s*(.+)|to-?do\s+(?!(?:lists?|apps?|is|are|was|from|for|about)\b)(.+)|(?:[-*+•]\s+)?\[ ?\]\s+(.+)"
    rf"|{_PLEASE}(?:add|create|make|set up)\s+(?:(?:an?|the|new|another|my)\s+)*(?:to-?do|task|reminder)(?:\s*[:–-]\s*|\s+to\s+)(.+)|{_PLEASE}add\s+(?:a\s+)?to-?do\s+(.+)|(?:new|neue[rs]?) (?:to-?do|task|aufgabe)\s*[:–-]\s*(.+)"
    rf"|{_PLEASE}(?:add|put|setze?|schreib(?:e)?|pack(?:e)?)\s+(.+?)\s+(?:to|on|onto|in|auf)\s+(?:my |the |our |meine |die )?(?:to-?do(?:s| list|-liste|liste)?|task list|list of tasks|aufgabenliste|liste?)[.!]*"
    r"|(?:(?:i|we) (?:still )?(?:need|have|ought) to|(?:i|we) must(?! (?:have|be))|(?:i|we)(?:'ve| have) got to|don'?t let me forget to|remember to|don'?t forget to)\s+(.+)"
    r"|((?:ich|wir) (?:muss|müssen|soll|sollte|sollten) (?:noch |unbedingt |dringend )*.+)",
    _S,
)
# An errand, told as one tells it to oneself: it is kept as a to-do.
ERRAND = late(
    r"(?:call(?! me\b)|ring|phone|buy|pay|pick up|renew|return|collect|drop off|water|feed|clean|wash|fix|replace|visit|post|cancel|reply to"
    r"|mow|iron|pack|get|schedule|bring|hand in|drop)\s+(?!(?:\S+\s+){0,3}(?:is|are|was|were|has|have|costs?|comes?|goes|ist)\b).+",
    _S,
)
SEARCH = late(
    rf"{_PLEASE}(?:search|look)\s+(?:in )?(?:my\s+|your\s+|the\s+)?(?:memory|notes?)?\s*(?:for|up|about)\s+(.+)"
    rf"|{_PLEASE}(?:recall|find|look up|tell me(?! a (?:joke|story))(?: again)?(?: about)?|remind me (?:again )?(?=wh|how)|i forgot (?=wh|how))\s*(.+)"
    rf"|{_PLEASE}(?:such(?:e)?|finde?|sag(?:e)? mir|erzähl(?:e)?(?: mir)?(?: von| über)?|schau(?:e)? nach)\s+(?:in (?:meinen|den) notizen\s+)?(?:nach\s+)?[,:]?\s*(.+)",
    _S,
)
READ = late(
    rf"{_PLEASE}(?:read|show(?: me)?|open|cat|print|display|lies|zeig(?:e)?(?: mir)?|öffne)\s+(?:me\s+)?(?:the\s+|die\s+)?(?:file\s+|datei\s+)?[`'\"]?"
    r"([\w./~@-]*[\w-]+\.[A-Za-z0-9]{1,8}|(?:[\w.~-]+/)+[\w.-]+)[`'\"]?(?:\s+(?:vor|an|bitte|please|aloud|out))*\s*[.!]?\Z",
    _I,
)
LIST = late(
    rf"(?:{_PLEASE}(?:list|show(?: me)?|zeig(?:e)?(?: mir)?|liste)\s+(?:all\s+|the\s+|my\s+|your\s+|alle\s+|die\s+|meine\s+)*(?:files|folder|directory|workspace|dateien|ordner)(?:\s+(?:in|of|under)\s+|\s+auf)?"
    r"|ls\b|dir\b|(?:what|which) files (?:are|do)\b(?:\s+(?:there|here|you have|i have|we have))?(?:\s+(?:in|under)\s+)?)"
    r"\s*[`'\"]?([\w./~-]*)[`'\"]?\s*[.?!]?\Z",
    _I,
)
_TASKS = r"(?:to-?dos?|to-?do[ -]?list(?:e)?|tasks?|open (?:tasks|items|todos)|task list|aufgaben(?:liste)?|offene[n]? (?:aufgaben|punkte|todos)|errands)"
TODOS = late(
    rf"{_PLEASE}(?:list|show|show me|read|tell me|give me|what(?:'s| is| are)|which|zeig(?:e)?(?: mir)?|nenn(?:e)? mir|liste|was sind|welche|was steht auf)\s*(?:all |on |me |in |of )*(?:my |the |our |meine[rn]? |die |der |are my )*(?:open |current |offenen )?{_TASKS}\b(?:\s+(?:auf|an|list|do i have|are (?:left|open|there)|habe ich|gibt es|sind offen))?[\s.?!]*"
    rf"|(?:my |meine )?{_TASKS}[\s.?!:]*|(?:how many|wie viele) (?:open |offene )?{_TASKS}\b.{{0,30}}|(?:i'm |i am |all |ich bin )?(?:done|finished|fertig|erledigt)[\s.!]*|(?:do i have |any |habe ich |gibt es )+(?:any |noch )*{_TASKS}\b.{{0,20}}"
    r"|what (?:do|must|should) (?:i|we) (?:still )?(?:have to|need to|got to)? ?do(?: today| now| still| this week| next)?[\s.?!]*"
    r"|what(?:'s| is) (?:left|still open|next) to do\??|was (?:muss|soll) ich (?:noch |heute )*(?:tun|machen|erledigen)[\s.?!]*|was (?:ist|gibt es|steht) (?:noch )?(?:zu tun|zu erledigen|an)[\s.?!]*",
    _S,
)
_TICKED = r"(?:done|finished|complete[d]?|erledigt|fertig|abgehakt)"
DONE = late(
    rf"{_TICKED}\s*(?::|\s[–-]\s)\s*(.+)|{_TICKED}\s+(?:(?:number|nummer|nr\.|no\.) ?|#)?(\d{{1,2}})[.!]*|{_PLEASE}(?:check|tick|cross)(?:ed)? off\s*:?\s+(.+)|{_PLEASE}hake? (.+?) ab[.!]*"
    rf"|{_PLEASE}(?:mark|tick|check|cross|set|markiere?|setze?|streiche?)\s+([^.;,]+?)\s+(?:(?:as|als|auf) {_TICKED}|off(?: (?:my|the|our) (?:to-?do )?list)?)[.!]*"
    r"|(?:i|we)(?:'ve| have)? (?:already |just )?(?:done|did|finished|completed) (?:the |my |our )?(?:to-?do|task) (.+)|(?:i|we)(?:'ve| have)? (?:already |just )?(?:done|did|finished|completed) (?:the |my |our )?(.+?) (?:to-?do|task)[.!]*",
    _S,
)
# It only sounds like a tick: "I finished reading the paper" may tell of something else.
TELLS_DONE = late(
    rf"(?:(?:i|we)(?:'ve| have| am| are|'m|'re)? (?:already |just |now )*)?(?:done|finished|completed|took care of|taken care of|dealt with)(?: with)?\s+(.+)|(?:erledigt|fertig)(?: mit)?\s+(.+)"
    rf"|(?:ich|wir) (?:habe|hab|haben) (.+?) {_TICKED}[.!]*|(.+?) (?:is|are|has been|have been|ist|sind|wurde|wurden|habe? ich|hab ich) (?:now |already |all |jetzt |schon |nun |bereits )*{_TICKED}[.!]*",
    _S,
)
_NOTE = r"(?:(?:the|my|our|your|that|this) )?(?:last )?(?:notes?|lines?|facts?|entry|entries|to-?dos?|tasks?|items?|reminders?)"
NOTIZ = r"(?:(?:die|meine|unsere|das|den|diesen?) )?(?:letzte[ns]? )?(?:notiz|zeile|eintrag|todo|aufgabe|erinnerung)"
# What a note states of somebody: "streiche Peters Telefonnummer" is no fence to paint.
_STATED = r"(?:(?:phone|mobile|account|card) )?(?:numbers?|passwords?|addresse?s?|e-?mail addresse?s?|iban|birthday)|[\w-]*(?:nummer|adresse|passwort|kennwort|iban|geburtstag)"
FORGET = late(
    rf"{_PLEASE}(?:forget|delete|erase)\s+(?![^,]*,\s+\S+\s+\S+\s+\S)(?:about\s+|{_NOTE} (?:about|on|that|with|of|for|to)\s+|what i (?:said|told you) about\s+|that (?=\S+ \S))?(.+)"
    # "remove the stain", "drop the keys at Ann's" and "streiche den Zaun" are errands.
    rf"|{_PLEASE}(?:remove|strike(?: out)?|drop|scrap|cancel|cross out)\s+(?:{_NOTE} (?:about|on|that|with|of|for|to)\s+(.+)|(that|this|it|{_NOTE})|(?:the|my|our|that) (?:to-?do|task|reminder)[:,]? (?!force\b)(.+)|((?:[\w-]+['’]s?|my|our) (?:{_STATED}))|(.+?) from (?:my |the |our |your )?(?:notes?|memory|list|to-?dos?|to-?do list|tasks))[.!]*"
    rf"|{_PLEASE}(?:vergiss|lösche?)\s*,?\s+(?:bitte\s+)?(?:{NOTIZ} (?:über|zu|zum|zur|mit|von|vom)\s+|was ich (?:dir )?über\s+|dass\s+)?(.+)"
    rf"|{_PLEASE}(?:entferne?|streiche?)\s+(?:bitte\s+)?(?:{NOTIZ} (?:über|zu|zum|zur|mit|von|vom)\s+(.+)|(das|dies|es|{NOTIZ})|((?:[A-ZÄÖÜ][\w-]+s|meine|unsere) (?:{_STATED})|die (?:{_STATED}) von \S+)|(.+?) (?:von der|aus der|aus den|aus meinen) (?:liste|notizen|todo-liste|aufgabenliste))[.!]*"
    r"|(scratch that|never mind that|strike that|streich das)[\s.!]*",
    _S,
)
LAST_ONE = late(r"(?:that|this|it|(?:the |my )?last (?:one|thing|note|line|fact|entry|to-?do|task|item|reminder)|das|dies|es|(?:die |meine )?letzte (?:notiz|zeile|aufgabe|erinnerung)|(?:den |meinen )?letzten eintrag|das letzte(?: todo)?|scratch that|never mind that|strike that|streich das|das (?:wieder|bitte|von eben)|that again)[\s.!]*", _I)  # fmt: skip
UNDO = late(
    rf"{_PLEASE}(?:undo(?: (?:that|this|it|the last (?:change|one|step)))?|take that back|(?:mach(?:e)? )?(?:das |es |dies )?(?:wieder )?rückgängig(?: machen)?|nimm das (?:wieder )?zurück)[\s.!]*",
    _I,
)
# A bare denial says nothing that could be kept.
DENIED = late(
    r"(?:(?:no|nope|nein|nee|sorry|oh|hm+|ach|aber|but)[\s,.!]+)*(?:(?:that|this|it)(?:'s| is| was) (?:(?:just|all|totally|completely|simply|plain|so) )*(?:wrong|false|incorrect|untrue|not (?:true|right|correct|so)|a lie|nonsense)"
    r"|(?:that|this|it) (?:isn't|wasn't) (?:true|right|correct|so)|not true|untrue|incorrect|wrong|false|falsch"
    r"|(?:(?:das|es) )?(?:stimmt|ist|war) (?:(?:aber|doch|so|ja|leider|gar|überhaupt|einfach|alles) )*(?:nicht(?: wahr| richtig| korrekt)?|falsch|gelogen|unwahr|unsinn|quatsch)(?: so)?|you(?:'re| are) wrong|du irrst dich)[\s.!]*",
    _I,
)
TIME = late(
    r"(?:what(?:'s| is)?|tell me|do you know)\s*(?:the\s+)?(?:current\s+)?(?:time|date|day|today'?s date)\b(?: is it| it is| now| today| please)*[\s?.!]*"
    r"|(?:what|which) (?:time|day|date) is (?:it|today)\b.{0,24}|(?:time|date)\s*[?]?|wie spät ist es.{0,12}|wie viel uhr ist es.{0,12}|welche[rsn]? (?:tag|datum) (?:ist|haben wir)(?: heute)?\??|der wievielte ist heute\??",
    _I,
)
STATUS = late(r"/?status\s*[.?!]?|(?:show|what(?:'s| is)) (?:the |your |my )?(?:session )?status\b.{0,16}", _I)
HELP = late(
    r"/?(?:help|hilfe)\s*(?:me)?[.?!]?|[?]+|(?:please )?(?:remember|note|notiere|merk dir)[.!:]?|(?:hm+|huh|what|why|how|who|when|where|wie|was|warum|wieso|wie bitte|echt|really|so)\s?[?!]*\?|what can (?:you|i) do\b(?: here| with you| for me)?[?.!]*|who are you\b.*|what are you\b.*|(?:which|what) (?:model|llm|ai)\b(?:.*\b(?:you|this|here|use|using|run|running))?[?.!]*|was kannst du\b.*|wer bist du\b.*|was bist du\b.*|wie funktionierst du\b.*"
    r"|how (?:do you|does this) work\b.*|are you (?:an? )?(?:ai|llm|gpt|claude|real|bot|human)\b.*|how (?:do|can) i (?:connect|add|use|set ?up|configure|change|switch)\b.*"
    r"(?:model|llm|key|provider|claude|gpt|ollama)\b.*|(?:connect|switch|change|use) (?:to )?(?:a |another )?(?:real )?model\b.*",
    _I,
)
# One word may stand behind a greeting: "hi Ann". More is something told: "hey Anna called".
GREET = late(r"(?:hi|hello|hey|good (?:morning|evening|afternoon)|hallo|moin(?: moin)?|servus|grüß dich|guten (?:morgen|tag|abend)|hola|bonjour|ping)\b(?:[\s,]+(?:to you|my friend|du da|liebes notizbuch|\w{1,12}))?[\s.!?]*", _I)  # fmt: skip
THANK = late(
    r"(?:(?:many )?thanks|thank you|thank u|thx|ty|cheers|danke|dankeschön|vielen dank|merci|gracias)\b(?:[\s,]+(?:a (?:lot|bunch|million)|so much|very much|again|that(?:'?s| is) (?:great|all|perfect|it)|das war(?:'?s| es| alles)|for (?:that|this|everything|(?:the|your) (?:help|info|answer|reminder)|asking)"
    r"|dir|euch|ihnen|sehr|schön|vielmals|dir sehr|für (?:alles|die (?:hilfe|auskunft|antwort|info))|\w{1,12}))?[\s.!]*",
    _I,
)
PART = late(r"(?:bye(?: bye)?|goodbye|good night|see you|see ya|gute nacht|tschüss|auf wiedersehen|bis (?:bald|morgen|später|dann)|ciao)\b(?:[\s,]+(?:on )?\w{1,12})?[\s.!]*", _I)  # fmt: skip
NOD = late(
    r"(?:(?:oh|ah|ach|hm+|well|na|aha)[\s,]*)?(?:ok(?:ay)?|k|great|cool|nice|perfect|super|yes|no|nope|yep|yeah|sure|fine|alright|all right|got it|i see|right|exactly|correct|good|wow|oh|ah|aha|hm+|h[ae]h[ae]\w*|lol|rofl|oops|sorry|never ?mind|whatever|maybe|yes please|no thanks|(?:good job|well|nicely) done|good job|nothing|cancel|abbrechen|nichts|ja bitte|nein danke|interesting|awesome|thanks|really"
    r"|ja|nein|nee|doch|genau|gut|prima|klar|passt|stimmt|richtig|super|toll|schade|egal|vielleicht|ach so|achso|na gut|mal sehen|lass mal|macht nichts|kein problem|no problem|no worries|(?:that(?:'?s| is)|it(?:'?s| is)) (?:right|correct|true|fine|great|good|all|it)|das (?:stimmt|passt|ist (?:richtig|gut|alles)|war(?:'?s| alles))"
    r"|i (?:don'?t|do not) (?:know|care|mind)|i dunno|dunno|idk|no idea|not sure|(?:ich )?weiß (?:ich |es )?(?:auch )?nicht|keine ahnung)\b[\s,]*(?:then|great|thanks|good|cool|danke|dann|gut|no|know|either|yet|lol|haha|ok|und|so)?[\s.!…]*|(?:test|testing|asdf)[.!\d]*|[^\w?]+",
    _I,
)
SELF = late(
    r"how (?:are|r) (?:you|u)\b.*|how(?:'?s| is) it going\b.*|what'?s up[\s?.!]*|wie geht(?:'?s| es)?(?: dir)?(?: heute)?[\s?.!]*|are you\b.*|bist du\b.*|who (?:made|built|wrote|created) you\b.*|what(?:'s| is) your name\b.*|wie heißt du\b.*"
    r"|(?:is|are) my (?:data|notes?)\b.*(?:safe|private|secure|sent|stored|kept)\b.*|where (?:is|are) my (?:data|notes?)(?: kept| stored| saved)?[?.!]*|wo (?:sind|liegen) meine (?:daten|notizen)\b.*"
    r"|(?:can|could|do) you (?!tell|remind|please|kindly|find|look|search|remember|recall|note|keep|show|read|list|know)\b.*\?|kannst du (?!mir sagen|dich|finden|nachsehen|zeigen)\b.*\?",
    _I,
)
TODAY = late(
    r"what (?:did|have) (?:i|we) (?:tell|told|say|said|note|noted|write|written)(?: to)?(?: you)?(?: down)?(?: today| so far)?[?.!]*"
    r"|was (?:habe ich|hab ich) (?:dir )?(?:heute )?(?:gesagt|erzählt|notiert)[?.!]*",
    _I,
)
NOTES = late(
    r"what(?:'s| is) (?:in|on) (?:my |your |the )?(?:memory|notes?)[?.!]*|(?:all )?(?:my |meine |alle (?:meine )?)(?:notes|notizen)[?.!]*|(?:show|list|read)(?: me)? (?:all (?:of )?)?(?:my |the |your )?(?:memory|notes)[?.!]*|show(?: me)? everything[?.!]*"
    r"|what (?:do you|all do you|else do you) (?:know|remember)(?: about (?:me|us))?[?.!]*|(?:zeig|zeige|liste)(?: mir)? (?:alle )?(?:meine |die )?notizen(?: auf)?[?.!]*|was (?:alles )?weißt du(?: alles)?(?: über (?:mich|uns))?[?.!]*|was steht in (?:meinen|den) notizen[?.!]*",
    _I,
)
# What was told on another day; `when` must be a day and nothing else.
TOLD_ON = late(
    r"what (?:did|have) (?:i|we) (?:tell|told|say|said|note|noted|write|written)(?: to)?(?: you)?(?: down)? (?P<when>.+?)[?.!]*|was (?:habe|hab|haben) (?:ich|wir) (?:dir )?(?P<wann>.+?) (?:gesagt|erzählt|notiert|geschrieben|aufgeschrieben)[?.!]*"
    r"|(?:(?:show|list|read)(?: me)? )?(?:all )?(?:(?:my|the) )?notes (?:of|from|for) (?P<of>.+?)[?.!]*|(?:(?:zeig|zeige|lies)(?: mir)? )?(?:(?:meine|die|alle) )?notizen (?:von|vom|aus) (?P<von>.+?)[?.!]*",
    _I,
)
BESIDE_A_DAY = late(r"(?:\W|\b(?:on|of|from|in|at|am|vom|von|the|der|den|dem|in)\b)*", _I)
REMIND = late(
    rf"{_PLEASE}remind\s+me\b(?!\s+(?:again\s+)?(?:wh|how))\s*(?:to\s+|that\s+|of\s+|about\s+)?(.+)|{_PLEASE}((?:wake|alert|ping|nudge)\s+me\b(?!\s+(?:again\s+)?(?:wh|how)).+|weck(?:e)?\s+(?:mich|uns)\b.+)|{_PLEASE}erinnere? mich\s*(?:bitte\s+)?(?:daran,?\s+)?(.+)",
    _S,
)
# Work for a model that understands, or for tools that a notebook does not use. Verbs that also begin a note ("call mum") are not among these.
WORK = late(
    _PLEASE
    + r"(?:translate|summari[sz]e|explain|calculate|compute|solve|generate|compose|paraphrase|proofread|rewrite|brainstorm|google|analy[sz]e|debug|refactor|ignore (?:all|your|previous|everything)|pretend|act as"
    r"|look (?:at|into|through|over) (?:this|that|it|these|the following)|go (?:through|over) (?:this|that|it|these)|write me|übersetze?|fasse?|erkläre?|(?:be)?rechne?|generiere?)\b(?!\s*[:=]|\w*'s\b|-)\s+\S.*"
    rf"|{_PLEASE}(?:tell me a (?:joke|story)|erzähl(?:e)? (?:mir )?(?:einen|eine) (?:witz|geschichte))\b.*",
    _S,
)
_NO_ORDER = r"(?!\s*[:=#]|\s+(?:is|are|was|were|ist|sind|war|waren|date[s]?|time[s]?|day[s]?|for|from|of|in|on(?! my)|at|by|until|till|um|am|im|ab|von|vom|für|bei|auf(?! mich)|alle|no\.|mon|tues?|wed|thu|fri|sat|sun|mo|di|mi|do|fr|sa|so|montags?|dienstags?|mittwochs?|donnerstags?|freitags?|samstags?|sonntags?|mon-\w+)\b|\s+(?:#|\d{1,2}[:.]\d|\d{1,2}\.?\s?(?:jan|feb|mar|mär|apr|ma[iy]|ju[nl]|aug|sep|o[ck]t|nov|de[cz])|\d+ ?x\b)|\w*'s\b|-)"
# What is done with notes and lists as a whole, and what only makes sense with what was said before.
_OWN = r"(?:(?:all|of|my|our|the|your|these|this|that|last|latest|alle|meine[rn]?|unsere|die|diese|den|das|letzten?|letztes)\s+)*(?:notes?|memory|notebook|to-?dos?|to-?do list|tasks?|lines?|entry|entries|notiz(?:en|buch)?|todos?|aufgaben(?:liste)?|zeilen?|eintrag|einträge)"
AGAIN = late(
    rf"{_PLEASE}(?:(?:export|sort|edit|change|back ?up|rename|clear|reset|organi[sz]e|reorgani[sz]e|merge|share|sync|import|rearrange|exportier|sortier|bearbeit|änder|ordn|sicher|teil|druck|benenn|leer|räum)(?:e|n)?\s+{_OWN}(?: (?:by|nach) [\w ]+| alphabetically| um| aus| auf)?"
    r"|continue|go on|keep going|carry on|again|once more|one more time|repeat|say (?:that|it) again|(?:repeat|wiederhol(?:e)?) (?:that|it|this|das|es|dies|bitte)|weiter|mach(?:e)? weiter|fahr(?:e)? fort|nochmals?|noch ?(?:ein)?mal|wiederhol(?:e|en)?|sag das (?:nochmal|noch (?:ein)?mal))(?: please| bitte)?[\s.!]*",
    _I,
)
BEYOND = late(
    _PLEASE
    + r"(?:calculate|browse|run|execute|install|look (?:at|into|through|over|(?:this|that|it) up)|go through|go over|say (?:a|an|one|something|hello|it)|think about|tell (?:him|her|them)|find out|figure out|sing|draw|paint|convert|compare|suggest|recommend|download|send|email|text|order|play|turn (?:on|off|up|down)|switch (?:on|off)|start|stop"
    r"|set (?:an?|the|my) (?:timer|alarm|reminder)|open|close|plan|check|help me|teach|describe|imagine|ignore|answer|reply|respond|repeat|count|sort|list|show|print"
    r"|schreib(?:e)?|erstell(?:e)?|schick(?:e)?|sende?|bestell(?:e)?|(?:buche?|spiele?)(?= (?:mir|uns|mal|bitte|ein|eine[nmrs]?|das|die|den|musik)\b)|mach(?:e)?|stell(?:e)?|schalte?|öffne?|plane|prüfe?|vergleiche?|empfiehl|hilf|zeig(?:e)?|liste?|such(?:e)?|gib|antworte?|starte?|installiere?)\b"
    + _NO_ORDER
    + r"\s+\S.*"
    rf"|{_PLEASE}(?:write|draft|make|create|give|book)(?: me)? (?:an?|some|the|my)\b.+"
    rf"|{_PLEASE}write (?:[\w+#-]+ ){{0,3}}(?:code|scripts?|programs?|functions?|poems?|poetry|stor(?:y|ies)|essays?|songs?|lyrics|haikus?|regex|sql|html)\b(?: .*|[.!]*)"
    rf"|{_PLEASE}(?:search|look (?:it )?up on) the (?:web|internet)\b.*",
    _S,
)
HEARTBEAT = late(r"HEARTBEAT_OK")
FLUSH = late(r"NO_REPLY")
FLUSH_TOPIC = late(r"compact|durable|memory|nothing to (?:store|save|keep)|flush", _I)
# A polite question that is an order; in German the verb stands at the end.
POLITE = late(
    r"(?:(?:please|pls|bitte|hey|hi|hallo|ok(?:ay)?|also|and|und)[,\s]+)*(?:(?:can|could|would|will) you |(?P<du>(?:kannst|könntest|würdest|magst|willst) du ))(?:(?:please|kindly|maybe|just|quickly|dir|es|bitte|mal|kurz|noch|vielleicht|schnell) )*",
    _I,
)
TO_KEEP = r"(?:merken|notieren|aufschreiben|festhalten|behalten|speichern)"
# "Can you remember the code?" asks for it; "can you remember that the code is 5?" tells it. "That restaurant where we ate" is no clause.
TO_YOU = late(r"\w+ (?:you|u|du)\b", _I)
TELLING = late(
    r"(?:remember|keep in mind|memori[sz]e|save|store|record)\s*(?::|,?\s*(?:that|this|the following|the fact that)(?:\s*:|\s+(?!\w+ (?:i|we|you|he|she|they|from|where|who|which|near|with)\b)\S+ \S))|(?:note|write|make a note|take a note|jot|don't forget|do not forget)\b.*\s\S+\s",
    _S,
)
RECALLING = late(r"(?:remember|keep in mind)\b", _I)
# With a colon it is what it says, whatever follows.
PLAIN = late(r"(?:please )?(?:note|remember|notiere?|merk dir|fyi|to-?do|task|aufgabe|zu erledigen|done|finished|erledigt|fertig|abgehakt|tick off|check off|forget|delete|vergiss|lösche?|remind me)\s*:", _I)  # fmt: skip
QUESTION = late(_WH, _I)
THESE = late(r"\b(?:this|that|these|following|below|it|das|dies(?:en|es)?|folgende\w*|den text|the text)\b", _I)
_THESE_ITEMS = r"(?:this|these|that|the following|following|folgende[sn]?|das|dies(?:es)?|diese)"
THIS_LIST = late(rf"(?:(?:please |bitte )*(?:remember|note(?: down)?|keep(?: in mind)?|save|store|write down|merk(?:e)? dir|notiere?(?: dir)?|behalte?)(?: bitte)?(?: {_THESE_ITEMS})?|{_THESE_ITEMS})(?: (?:facts?|things?|notes?|points?|items?|dinge|punkte|fakten))?(?: bitte)?\s*:", _I)  # fmt: skip
TASK_LIST = late(rf"(?:(?:my|our|meine|unsere|new|neue|open) )*(?:{_TASKS}|zu erledigen|things to do|to do)(?: (?:for|für|on|am) [\w ]+| today| tomorrow| this week| next week| heute| morgen| diese woche)?:", _I)  # fmt: skip
FILE = late(r'<file name="([^"\n]*)">\n?(.*?)</file>', re.DOTALL)
THIS = late(r"(?:please )?(?:(?:remember|keep|note|save|store|merk dir|notiere?|behalte?) )?(?:this|that|it|these|the file|das|dies|die datei)[.!:]*", _I)  # fmt: skip
MARK = late(r"\A\s*(?:[-*+•–]\s+|\d{1,2}[.)]\s+(?=\D))")
BOX = late(r"\A\[ ?\]\s+")
# A list that has a name ("shopping list", "Einkaufsliste"): put something on it, take it off, ask for it.
_A_LIST = r"(?!(?:to-?do|task|the|my|our|your|this|that|meine[rn]?|unsere[rn]?|die|der)\b|aufgabenliste|todo-liste)(?:(?:[\w'’-]+ ){1,2}list|[\w-]+liste)\b"
_THE = r"(?:(?:the|my|our|die|der|meine[rn]?|unsere[rn]?) )?"
ON_LIST = late(
    rf"{_PLEASE}(?:add|put|write|setze?|schreib(?:e)?|pack(?:e)?|tu(?:e)?)\s+(?P<item>.+?)\s+(?:to|on|onto|in|auf|zu|zur)\s+{_THE}(?P<list>{_A_LIST})[.!]*",
    _S,
)
ONTO_LIST = late(rf"(?P<item>.+?) (?:auf|in) {_THE}(?P<list>{_A_LIST}) (?:setzen|schreiben|packen|tun)", _S)
OFF_LIST = late(
    rf"{_PLEASE}(?:remove|take|delete|strike|cross|drop|scratch|erase|entferne?|streiche?|lösche?|nimm)\s+(?P<item>.+?)\s+(?:off|from|out of|of|von|aus)\s+(?:of )?{_THE}(?P<list>{_A_LIST})(?: herunter| runter)?[.!]*",
    _S,
)
LISTED = late(
    rf"(?P<order>{_PLEASE}(?:what(?:'s| is| all is| do i have| do we have|'s all)(?: still)? (?:on|in)|show(?: me)?|read(?: me)?|tell me|list|was (?:steht|ist|haben wir|hab(?:e)? ich)(?: \w+)? auf|zeig(?:e)?(?: mir)?|lies(?: mir)?|nenn(?:e)? mir)\s+(?:what'?s on )?)?{_THE}(?P<list>{_A_LIST})(?: vor| an)?[\s.?!]*",
    _I,
)
# "Shopping list: milk, bread".
A_LIST = late(rf"(?:(?:my|our|the|meine|unsere|die) )?(?P<list>{_A_LIST})\s*:\s*(?P<items>\S.*)", _S)
# What one does with an errand once it is run.
DID = late(
    r"(?:i|we)(?:'ve| have| just| already)* ((?:called|rang|phoned|bought|paid|picked up|renewed|returned|collected|dropped off|watered|fed|cleaned|washed|fixed|replaced|visited|posted|cancelled|canceled|replied to|mowed|ironed|packed|scheduled|brought|handed in|booked|mailed|ordered)\s+(?:\S+\s*){1,6}?)(?: (?:today|now|yesterday|already|this morning|just now))?[.!]*",
    _S,
)
