"""Whether a sentence tells the notebook how to speak or behave. It can obey none of that, and must not keep it as a fact. Pure.

"Never answer the door" and "don't be late on Monday" are notes to oneself: only what is about answers, or about "me", is meant.
"""

from __future__ import annotations

import re

from homarus.core.patterns import late

_AS_ASKED = r"(?:(?:please|pls|bitte|hey|ok(?:ay)?|also|and|und|from now on|in (?:the )?future|(?:can|could|would|will) you|you (?:should|must|may)|i (?:want|would like|'d like) you to|always|just|only|(?:kannst|könntest) du|immer|ab jetzt|künftig)[,\s]+)*"
_NEVER = r"(?:never|do not|don't|stop|no longer|nie|niemals)[,\s]+(?:ever |again |please |bitte )*"
_TONGUE = (
    r"(?:english|german|french|spanish|italian|dutch|polish|turkish|russian|portuguese|chinese|japanese|arabic|deutsch|englisch|französisch|spanisch|italienisch|my language"
    r"|(?:\w+ )?sentences?|words?|rhymes?|verse|bullet points|lists?|prose|plain \w+|simple \w+|caps|one \w+|(?:a|an|the) \w+ (?:way|tone|voice|style|language|sentence)|(?:\w+ )?sätzen|stichpunkten|reimen|versen)"
)
_TONE = (
    r"(?:brief|concise|short|terse|polite|nice|kind|funny|formal|informal|casual|serious|honest|direct|precise|clear|quiet|patient|friendly|helpful|creative|sarcastic|rude|silly|verbose|chatty|wordy|cheerful"
    r"|kurz|knapp|höflich|freundlich|nett|lustig|ernst|ehrlich|direkt|förmlich|still|sarkastisch|ausführlich|frech)"
)
_TO_ME = r"(?: (?:to me|with me|me|back|back to me|(?:to )?my (?:questions?|messages?)|mir|mit mir|zu mir))?"
_HOW = r"(?: (?:always|only|just|very|more|less|so|too|a bit|a little|immer|nur|bitte|sehr|ganz|mehr|weniger|nicht|etwas|ein bisschen))*"
_BESIDE = r"(?: (?:please|bitte|from now on|ab jetzt|with me|to me|mit mir|zu mir|in your (?:answers|replies)|when you (?:answer|reply)|always|immer|only|answers?|(?:and|und) \w+))*"
_SPEAK = (
    rf"(?:answer|reply|respond|speak|talk|write|communicate|antworte?|sprich|rede?|schreib(?:e)?){_TO_ME}{_HOW}{_TO_ME}"
    rf"(?: (?:in|auf)(?: an?)? {_TONGUE}| {_TONGUE}| (?:briefly|politely|slowly|formally|{_TONE})| (?:with|without|mit|ohne) (?:one|a single|a short|few|fewer|more|less|emojis?|bullet|yes|no|markdown|explanations?|einem|kurzen|wenigen|erklärung\w*)\b.*)"
)
_BE = rf"(?:be|sei|bleib){_HOW} {_TONE}"
_USE = r"(?:use|using|benutze?|verwende?|nutze?)(?: (?:no|fewer|less|more|any|only|so many|keine?|weniger|mehr|nur|nie|niemals|immer|bitte))* (?:emojis?|emoticons?|smileys?|markdown|bullet points|slang|jargon|exclamation marks|swear ?words|my (?:first |last |full )?name|simple \w+|short \w+|plain \w+|fremdwörter|ausrufezeichen|meinen \w*namen)\b.{0,40}"
_SHORT = r"(?:keep|halte?|fasse?) (?:it|your (?:answers?|replies|messages)|dich|deine antworten)(?: very| really| sehr)? (?:short|brief|simple|concise|polite|kurz|knapp|einfach)\b.{0,20}"
# Before others: "don't mention the party to Ann" is a note to oneself.
_SPOKEN_OF = r"(?:mention|bring(?:ing)? up|talk(?:ing)? about|speak(?:ing)? (?:about|of)|refer to|ask(?:ing)? (?:me )?(?:about|for))\b(?!.*\b(?:to|with|at|near|around|when|before|until|till|in front of) (?!me\b)).+"
_WITH_ME = r"(?:address|lie to|interrupt|lecture|judge|correct|ask|tell|call|thank|greet) me\b.*|apologi[sz](?:e|ing)\b.*|repeat(?:ing)? (?:yourself|that)|(?:make|making) (?:things|stuff|it|anything) up|invent(?:ing)? (?:things|anything)"
# "Don't tell anyone about the party" is a note to oneself; whom the notebook tells what is its own matter.
_TO_OTHERS = r"(?:tell|telling|give|giving|show|showing|reveal|revealing|share|sharing|disclose|say)(?: (?:anyone|anybody|others|people|strangers|them))? my (?:\w+ ){0,2}(?:passwords?|pins?|codes?|secrets?|data|notes?|address|number|name)(?: (?:to|with) (?:anyone|anybody|others|people|strangers))?"
_GERMAN = r"(?:verrate?|sag(?:e)?|zeig(?:e)?|gib) (?:niemandem|keinem) mein\w* (?:\w+ )?[\w-]+|(?:erwähne?|sprich|rede?) (?:bitte )?(?:nie|nicht|niemals|nie wieder)\b.*|erwähne? (?!.*\b(?:gegenüber|vor|bei|zu) (?!mir\b)).+ (?:nie|nicht|niemals|nie wieder)|(?:duze?|sieze?|unterbrich|belehre?) mich\b.*|lüg(?:e)? mich nicht an|wiederhol(?:e)? dich nicht|entschuldige? dich nicht\b.*|erfinde? (?:nichts|nie)\b.*|frag(?:e)? (?:mich )?(?:nie|nicht)\b.*"
_MANNER = late(
    rf"{_AS_ASKED}(?:(?:{_NEVER})?(?:{_SPEAK}|{_BE}|{_USE}|{_SHORT}){_BESIDE}|{_NEVER}(?:{_SPOKEN_OF}|{_WITH_ME}|{_TO_OTHERS})|{_GERMAN})[\s.!]*",
    re.IGNORECASE | re.DOTALL,
)


def on_manner(sentence: str) -> bool:
    """Say whether a sentence is an instruction on how to answer, to speak or to treat whoever gives it."""
    return _MANNER.fullmatch(sentence) is not None
