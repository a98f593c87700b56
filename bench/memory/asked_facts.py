"""The facts and questions of `bench.memory.asked`, and whom and what they are about. Data only."""

from __future__ import annotations

PEOPLE = (
    "Anna Boris Carla Dmitri Elena Farid Greta Hiro Ines Jonas Katya Liam Mara Nils Olga Pavel Quinn Rosa Sven Tara "
    "Uma Viktor Wanda Xavier Yara Zoe Adele Bruno Clara Dario Emil Fiona Gregor Hanna Igor Julia Karim Lena Marco Nadia "
    "Oscar Paula Rafael Sonja Tomas Ursula Vera Walter Yusuf Zelda Agnes Bernd Cecile Derek Edith Felix Gisela Hector "
    "Irene Jakob Kristin Lorenzo Miriam Norbert Ottilie Philipp Renate Stefan Theresa Ulrich Veronika Wilma Andreas "
    "Beatrice Conrad Dorothea Ernesto Franziska Gerald Henrietta Isidor Johanna Klaus Leonora Matthias Nathalie Ophelia "
    "Patrick Rebecca Sebastian Tobias Valentina Wolfgang Yvonne Albert Bridget Chester Deborah Edmund Florence"
).split()
THINGS = [
    f"the {kind} {thing}"
    for kind, thing in zip(
        ("old", "new", "big", "small", "white", "black", "red", "green") * 10,
        (
            "dishwasher bicycle printer kettle sofa camera laptop ladder tent guitar heater router drill freezer mirror "
            "carpet toaster scooter projector piano lawnmower wardrobe microscope telescope suitcase blender armchair "
            "bookcase keyboard monitor saddle kayak sledge canoe trailer stove boiler doorbell thermostat umbrella watch "
            "necklace violin drum accordion globe clock lamp chandelier fan grill hammock swing slide trampoline "
            "wheelbarrow rake shovel hose sprinkler fountain fence gate shed awning chimney gutter antenna alarm safe "
            "radio turntable speaker headphones tablet scanner shredder stapler easel loom"
        ).split(),
        strict=True,
    )
]
PLACES = [
    f"{kind} {name}"
    for kind, name in zip(
        ("Café", "Hotel", "Restaurant", "Bakery", "Gym", "Clinic") * 10,
        (
            "Lindner Aurora Castello Huber Titan Salvia Morgenrot Bellevue Dragon Sonne Olympia Medica Orchid Astoria "
            "Marina Krume Atlas Vita Central Park Toscana Weizen Sparta Sana Luna Royal Bombay Stein Apollo Cura Nova "
            "Victoria Sakura Mehl Herkules Salus Rosa Imperial Athen Korn Phoenix Hygieia Zebra Metropol Lisboa Ofen "
            "Kraft Linde Piano Excelsior Hanoi Brezel Fitline Merkur Opera Savoy Cairo Zopf Puls Fontane"
        ).split(),
        strict=True,
    )
]
PETS = (
    "Bello Minka Rex Luna Balu Mogli Schnurri Kira Tiger Flocke Rocky Lilly Max Nala Pepper Socke Filou Gipsy Hasso "
    "Idefix Joschi Krümel Lucky Momo Nero Oreo Paco Quax Rudi Susi"
).split()
PROJECTS = [
    f"project {name}"
    for name in (
        "Albatross Beacon Cobalt Dolphin Everest Falcon Glacier Horizon Iceberg Jasmine Kestrel Lighthouse Meridian "
        "Nimbus Orion Pelican Quartz Raven Sapphire Tundra Umbra Vortex Walnut Xenon Yonder Zephyr Acorn Bison Cedar Dune"
    ).split()
]

OF_PEOPLE = [
    ("{x} cannot eat peanuts, they make the throat swell", "Which food is dangerous for {x}?"),
    ("{x} works as a nurse on the children's ward", "What is {x}'s job?"),
    ("{x} was born on the third of March", "When is {x}'s birthday?"),
    ("{x} lives in a flat above the bakery on Mill Street", "What is {x}'s address?"),
    ("{x} drives a grey Volvo with a dent in the door", "What car does {x} have?"),
    ("{x} has two daughters and a baby son", "How many children does {x} have?"),
    ("{x} is married to a dentist called Ruben", "Who is {x}'s husband or wife?"),
    ("{x} plays the cello in an amateur orchestra", "Which instrument does {x} know how to play?"),
    ("{x} grew up on a farm near Cork", "Where did {x} spend their childhood?"),
    ("{x} studied law but never finished", "Did {x} get a university degree?"),
    ("{x} wakes at five to run along the river", "What does {x} do early in the morning?"),
    ("{x} owes me forty euros for the concert tickets", "How much money does {x} still have to pay back?"),
    ("{x} wants a cookbook for Christmas", "What present should I get {x}?"),
    ("{x} is afraid of heights and avoids cable cars", "What is {x} scared of?"),
    ("{x} broke an arm while skiing in January", "What injury did {x} have?"),
    ("{x} takes pills against high blood pressure", "Which medication is {x} on?"),
    ("{x} quit smoking last autumn", "Does {x} still use cigarettes?"),
    ("{x} drinks black coffee without sugar", "How does {x} take hot drinks?"),
    ("{x} votes for the Greens", "What are {x}'s politics?"),
    ("{x} speaks fluent Portuguese thanks to a grandmother from Porto", "Which foreign languages can {x} talk in?"),
    ("{x} supports the football club from the harbour", "Which team is {x} a fan of?"),
    ("{x} reads crime novels on the train", "What kind of books does {x} like?"),
    ("{x} is saving up to buy a sailing boat", "What does {x} put money aside for?"),
    ("{x} was promoted to head of accounting", "What is {x}'s new position in the company?"),
    ("{x} resigned from the bank to become a carpenter", "Which career change did {x} make?"),
    ("{x} goes to the hairdresser every second Friday", "How often does {x} get a haircut?"),
    ("{x} wears size 43 shoes", "How big are {x}'s feet?"),
    ("{x} keeps bees behind the garage", "Which animals does {x} look after?"),
    ("{x} bakes sourdough bread on weekends", "What does {x} make in the kitchen on Saturdays?"),
    ("{x} sold the motorbike after the accident", "Why did {x} get rid of the motorcycle?"),
    ("{x} had the appendix removed as a teenager", "What surgery has {x} undergone?"),
    ("{x} fell in love with a colleague from Madrid", "Who is {x} dating?"),
    ("{x} moved out after the quarrel with the landlord", "Why did {x} leave the apartment?"),
    ("{x} collects stamps from former colonies", "What is {x}'s hobby?"),
    ("{x} prefers to be called in the evening, never before noon", "What is the best time to phone {x}?"),
    ("{x} snores so loudly that nobody wants to share a room", "What is annoying about sleeping near {x}?"),
    ("{x} donates blood twice a year", "Does {x} give to the Red Cross?"),
    ("{x} watches old westerns with subtitles", "What kind of films does {x} enjoy?"),
    ("{x} will fly to Iceland in February", "Where is {x} travelling on holiday?"),
    ("{x} failed the driving test three times", "Does {x} have a licence to drive?"),
    ("{x} lost the wallet at the swimming pool", "Where did {x}'s purse disappear?"),
    ("{x} sleeps badly when the moon is full", "What keeps {x} awake at night?"),
    ("{x} is learning to paint with watercolours", "Which new skill is {x} practising?"),
    ("{x} hates surprise parties", "What would {x} not want on a birthday?"),
    ("{x} pays 900 euros rent for two rooms", "How expensive is {x}'s home?"),
    ("{x} teaches chemistry at the evening school", "What subject does {x} give lessons in?"),
    ("{x} inherited a vineyard from an uncle", "What did {x} get from a relative who died?"),
    ("{x} gets seasick even on calm lakes", "Why should {x} not come on the ferry?"),
    ("{x} is a strict vegetarian since the documentary about slaughterhouses", "Does {x} eat meat?"),
    ("{x} hides the spare key under the flower pot", "How can I get into {x}'s house?"),
]
OF_THINGS = [
    ("We bought {x} for 340 euros in the spring sale", "How much did {x} cost?"),
    ("{x} is stored in the cellar behind the wine rack", "Where do we keep {x}?"),
    ("The warranty of {x} runs out in November", "Until when is {x} under guarantee?"),
    ("{x} makes a grinding noise when it is cold", "What strange sound comes from {x}?"),
    ("A man called Petersen repaired {x} for free", "Who fixed {x}?"),
    ("We lent {x} to the neighbours upstairs", "Who has borrowed {x}?"),
    ("{x} was a wedding gift from aunt Margot", "Who gave us {x}?"),
    ("{x} must be cleaned with vinegar once a month", "How should {x} be washed?"),
    ("The manual of {x} lies in the top drawer of the desk", "Where are the instructions for {x}?"),
    ("{x} came with a scratch, the shop gave us a discount", "Was {x} damaged when it arrived?"),
    ("We plan to sell {x} at the flea market", "What are we going to do with {x}?"),
    ("{x} weighs more than thirty kilos", "How heavy is {x}?"),
    ("The serial number of {x} is written on a sticker below", "Where do I find the identification of {x}?"),
    ("{x} stopped working after the thunderstorm", "What broke {x}?"),
]
OF_PLACES = [
    ("{x} is closed on Mondays", "On which day can one not go to {x}?"),
    ("At {x} they only accept cash", "Can I pay by card at {x}?"),
    ("{x} has a quiet garden at the back", "Can one sit outside at {x}?"),
    ("We waited an hour at {x} and nobody apologised", "How was the service at {x}?"),
    ("The owner of {x} went to school with my father", "Who runs {x}?"),
    ("{x} moved to the square next to the town hall", "Where is {x} located now?"),
    ("{x} got much more expensive since the renovation", "Have the prices at {x} gone up?"),
    ("There is no parking near {x}, better take tram 6", "How do I get to {x}?"),
    ("Dogs are not allowed inside {x}", "May I bring a pet to {x}?"),
    ("{x} gives a discount of ten percent to students", "Is {x} cheaper for young people at college?"),
]
OF_PETS = [
    ("{x} must not get chicken, the vet found an allergy", "Which food does {x} not tolerate?"),
    ("{x} was vaccinated against rabies in May", "When did {x} get the last shot?"),
    ("{x} sleeps in the laundry basket", "Where is {x}'s favourite place to nap?"),
    ("{x} bit the postman in the leg", "Has {x} ever attacked somebody?"),
    ("{x} came from the shelter in Graz", "Where did we adopt {x}?"),
    ("{x} hides under the bed when there are fireworks", "How does {x} react to loud bangs?"),
    ("{x} weighs nine kilos and should lose two", "Is {x} too fat?"),
    ("The chip number of {x} is noted in the blue folder", "Where is {x}'s identification written down?"),
]
OF_PROJECTS = [
    ("{x} was cancelled because the customer went bankrupt", "Why did {x} end?"),
    ("{x} is led by a consultant from Vienna", "Who is in charge of {x}?"),
    ("The deadline of {x} was moved to the end of June", "When must {x} be finished?"),
    ("{x} has a budget of 80,000 euros", "How much money can {x} spend?"),
    ("The code of {x} lives in the internal Git server", "Where is the source of {x} kept?"),
    ("{x} is written in Rust because of the speed", "Which programming language does {x} use?"),
    ("Five people work full time on {x}", "How large is the team of {x}?"),
    ("The meeting about {x} is on Tuesdays at ten", "When do we get together to discuss {x}?"),
]
