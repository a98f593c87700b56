"""Words of everyday life by what they are: so that "tea" answers for drinks, and "Rome" and "Oslo" are two answers to one question.

Small on purpose, in English, German and Spanish; a word that is missing only means that words must match by themselves. Data and
two lookups.
"""

from __future__ import annotations

from functools import cache, lru_cache

from homarus.memory.terms import plain, stem

# category, its names in a question (after the colon: its members)
_TABLE = """
drink drinks beverage beverages getränk getränke bebida bebidas: tea coffee espresso cappuccino latte water juice beer wine milk cocoa lemonade soda cider whisky smoothie matcha tee kaffee wasser saft bier wein milch té café agua zumo cerveza vino leche
food foods meal meals dish dishes cuisine snack snacks eat essen gericht gerichte speise comida comidas plato: pizza pasta rice sushi salad soup bread cheese chicken fish steak burger tacos curry noodles ramen sandwich cake cookies pie chocolate fruit vegetables eggs bacon pancakes tofu dumplings lasagna nudeln reis suppe brot käse huhn fisch kuchen arroz sopa pan queso pollo pescado tarta
pet pets animal animals haustier haustiere tier mascota mascotas animal: dog cat puppy kitten rabbit hamster parrot bird horse turtle tortoise snake lizard goldfish guinea ferret hund katze kaninchen vogel pferd perro gato conejo pájaro caballo
colour colours color colors farbe farben: red blue green yellow orange purple pink black white grey gray brown turquoise rot blau grün gelb lila schwarz weiß grau braun rojo azul verde amarillo negro blanco gris marrón
sport sports exercise exercises workout workouts deporte deportes: running swimming cycling tennis football soccer basketball baseball volleyball golf yoga pilates boxing climbing hiking skiing snowboarding surfing skating rowing karate judo gym jogging badminton hockey cricket schwimmen laufen radfahren fußball wandern klettern natación correr ciclismo fútbol senderismo
hobby hobbies activity activities pastime pastimes interest interests hobbys freizeit afición aficiones actividades pasatiempo: painting drawing pottery knitting sewing gardening baking cooking reading writing photography fishing camping hiking dancing singing chess puzzles woodworking crochet running swimming yoga travel travelling gaming volunteering birdwatching origami museum beach concert malen stricken gärtnern backen kochen lesen fotografie tanzen pintura jardinería cocinar leer bailar
instrument instruments instrumento instrumentos instrumente: guitar piano violin drums flute clarinet saxophone trumpet cello ukulele bass harp banjo gitarre klavier geige schlagzeug flöte guitarra violín batería flauta
music genre genres band bands musician musicians artist artists song songs musik música: rock jazz pop classical folk blues metal techno reggae country indie opera hip-hop rap concert
transport vehicle vehicles transportation commute travel verkehrsmittel fahrzeug transporte vehículo: train bus car bike bicycle plane tram subway taxi ferry scooter motorcycle van truck walking zug auto fahrrad flugzeug bahn straßenbahn tren coche bicicleta avión tranvía
season seasons jahreszeit estación: spring summer autumn winter fall frühling sommer herbst primavera verano otoño invierno
weekday day days tag wochentag día: monday tuesday wednesday thursday friday saturday sunday montag dienstag mittwoch donnerstag freitag samstag sonntag lunes martes miércoles jueves viernes sábado domingo
relative relatives family sibling siblings kid kids familie verwandte familia: mother father mom dad mum brother sister son daughter uncle aunt cousin grandmother grandfather grandma grandpa husband wife niece nephew mutter vater bruder schwester sohn tochter madre padre hermano hermana hijo hija
job jobs profession occupation career work beruf trabajo profesión: teacher nurse doctor engineer lawyer designer developer programmer chef baker artist writer journalist accountant manager electrician plumber carpenter scientist counselor therapist librarian pilot architect lehrer ärztin arzt ingenieur koch maestro enfermera médico ingeniera abogado
illness allergy allergies health condition symptoms sickness krankheit allergie enfermedad alergia: asthma flu cold fever migraine allergic diabetes cough headache injury sprain peanuts pollen gluten lactose asthma grippe fieber alergia fiebre
device devices gadget gadgets computer phone gerät dispositivo: laptop phone tablet camera keyboard monitor printer headphones router watch console drone
editor tool tools software program programs language languages framework werkzeug herramienta: vim emacs vscode python rust javascript typescript java postgresql postgres mysql sqlite docker kubernetes git react slack notion excel word
furniture möbel muebles: table chair sofa couch bed desk shelf bookcase wardrobe lamp tisch stuhl bett mesa silla cama
clothing clothes outfit kleidung ropa: shirt dress jacket coat shoes boots cap scarf jeans trousers skirt sweater hemd kleid jacke schuhe camisa vestido zapatos
plant plants flower flowers pflanze blume planta flor: rose tulip sunflower orchid cactus basil tomato tomatoes lavender fern lily daisy rosen tulpen kaktus rosa tulipán
seat seats sitzplatz asiento: window aisle fenster gang ventanilla pasillo
channel channels communication contact kanal canal: email whatsapp telegram phone call sms letter slack signal
city cities town towns stadt städte ciudad ciudades: london paris berlin rome madrid lisbon oslo vienna hamburg munich tokyo boston chicago seattle austin denver miami toronto dublin prague barcelona zurich amsterdam
country countries land länder país países: germany france spain italy portugal norway sweden japan china india canada mexico brazil england ireland scotland greece switzerland austria poland
"""

# More things of a kind, which the reading of notes knows; questions are not widened to them.
_MORE = """
drink: rooibos chai kombucha kefir horchata cola tonic champagne prosecco gin vodka brandy sherry stout lager americano macchiato bourbon tequila limonade limo schorle spezi sekt schnaps likör kakao mosto sidra limonada refresco batido chocolate infusión manzanilla ron ginebra champán zumos jugo
food: risotto gnocchi ravioli paella falafel hummus kebab waffles porridge muesli yoghurt yogurt oats toast bagel croissant omelette quiche stew chili shrimp prawns salmon tuna lobster beef pork lamb turkey ham sausage potatoes fries chips broccoli spinach carrots mushrooms olives apple apples banana bananas cherries strawberries mango grapes pears peaches lemons nuts almonds popcorn pudding brownies kartoffeln pommes wurst schnitzel spätzle knödel salat pilze äpfel birnen erdbeeren kirschen müsli joghurt pfannkuchen fleisch gemüse obst rosenkohl spinat tortilla ensalada patatas jamón carne verduras fruta manzanas plátanos fresas helado huevos lentejas garbanzos setas gambas salmón atún churros empanadas
colour: teal mauve ochre magenta indigo maroon beige cyan lilac crimson scarlet türkis ocker violett ocre turquesa morado violeta naranja dorado plateado granate beis lila celeste
sport: squash fencing archery curling rugby handball sailing kayaking canoeing triathlon sprinting marathon wrestling gymnastics lacrosse padel darts bowling softball biking diving fechten rudern segeln turnen reiten tischtennis joggen boxen skifahren eislaufen tauchen bogenschießen tenis baloncesto balonmano esgrima boxeo escalada esquí buceo atletismo gimnasia pádel voleibol
instrument: oboe tuba lute mandolin viola harmonica accordion trombone bassoon bagpipes keyboard synthesizer xylophone sitar laute mandoline bratsche akkordeon posaune trompete saxophon klarinette cello harfe orgel mundharmonika piano mandolina arpa trompeta saxofón clarinete violonchelo acordeón órgano trombón ukelele
transport: ferry moped skateboard helicopter metro minibus carpool underground roller fähre kutsche bus u-bahn taxi motorrad autobus motocicleta moto patinete autobús ferri camión furgoneta avioneta
music: punk funk disco gospel grunge ska ambient salsa tango flamenco bachata schlager klassik volksmusik cumbia ranchera clásica
hobby: calligraphy embroidery quilting juggling astronomy stargazing genealogy geocaching carpentry brewing beekeeping sketching blogging hiking zeichnen nähen häkeln töpfern basteln angeln singen schreiben schach rätsel wandern fotografieren imkern dibujar tejer coser cerámica pescar cantar escribir ajedrez fotografía senderismo costura
clothing: cardigan hoodie blazer sandals sneakers gloves socks pyjamas pullover mantel mütze schal handschuhe stiefel sandalen bluse anzug abrigo falda pantalones chaqueta bufanda botas sandalias sombrero blusa
plant: peony jasmine magnolia hydrangea daffodil marigold ivy rosemary thyme orchidee lilie sonnenblume nelke flieder veilchen farn efeu lavendel orquídea girasol clavel margarita lirio jazmín hortensia helecho albahaca romero
season: springtime summertime wintertime frühjahr
pet: budgie canary gecko iguana pony donkey chinchilla hedgehog meerschweinchen wellensittich schildkröte ziege schlange echse cobaya canario tortuga ratón burro cabra
"""

KINDS = frozenset(row.split()[0] for row in _TABLE.strip().splitlines())


@cache
def _tables() -> tuple[dict[str, str], dict[str, frozenset[str]]]:
    asked: dict[str, str] = {}
    members: dict[str, set[str]] = {}
    for row in _TABLE.strip().splitlines():
        names, _, words = row.partition(":")
        first = names.split()[0]
        for name in names.split():
            asked.setdefault(stem(plain(name)), first)
        for word in words.split():
            members.setdefault(plain(word), set()).add(first)
    for row in _MORE.strip().splitlines():
        kind, _, words = row.partition(":")
        for word in words.split():
            members.setdefault(plain(word), {kind})  # what the first table says of a word holds
    return asked, {word: frozenset(found) for word, found in members.items()}


@lru_cache(maxsize=20_000)
def asked_for(word: str) -> str:
    """Return the category that a word of a question names (`drinks`: drink); empty where it names none."""
    return _tables()[0].get(stem(plain(word)), "")


def members(category: str) -> tuple[str, ...]:
    """Return the words that are of a category, as they are looked up."""
    return _members().get(category, ())


@cache
def _members() -> dict[str, tuple[str, ...]]:
    rows = (row.partition(":") for row in _TABLE.strip().splitlines())
    return {names.split()[0]: tuple(dict.fromkeys(map(plain, words.split()))) for names, _, words in rows}


@lru_cache(maxsize=20_000)
def categories_of(word: str) -> frozenset[str]:
    """Return what a word is: `tea` is a drink, and so are `teas`; `wins` is no wine, though both have one stem."""
    table, folded = _tables()[1], plain(word)
    forms = (folded, *(folded.removesuffix(end) for end in ("s", "es", "n", "e", "er") if folded.endswith(end)))
    return next((table[form] for form in forms if len(form) > 2 and form in table), frozenset())
