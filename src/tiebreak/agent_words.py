"""The words of default agent names, such as `brave-otter`. Imported only when a name has to be made.

Every change here renames every unnamed agent on every board, sessions at work included, so leave the lists as they are.
The words are ASCII, three to nine letters, friendly in every pair, and no two of a list differ in a single letter.
"""

from __future__ import annotations

ADJECTIVES = """
able agile airy alert alpine amber ample ancient apt aqua arctic ardent artful astral astute atomic august
autumn avid azure balmy beaming benign blissful bluish bold bonny boreal brave breezy brief bright brisk bronze
bubbly buoyant calm candid capable careful cedar cerulean charming cheerful cherry chipper chirpy choral civic
classic clear clever cloudy coastal cobalt cogent cool copper cordial cosmic courtly crafty creative crimson
crisp crystal curious curly cyan dainty dapper daring dawning dazzling dear decent deft deluxe devoted diligent
distant diurnal doughty downy dreamy driven dulcet durable dusky dutiful dynamic eager early earnest earthy
eastern eclectic elastic electric elegant elfin elite elusive emerald eminent enduring epic evergreen exact
exalted expert fabled fair faithful famed famous fancy fearless feathery festive fine firm fleet floral flowing
fluent fluffy flying fond fortunate frank free fresh friendly frosty frugal gallant genial gentle genuine gifted
gilded ginger glacial glad gleaming global glorious glossy golden good gorgeous graceful gracious grand green
groovy grounded guiding gusty hale handy happy harmonic hazel healthy hearty helpful heroic hilly honest hopeful
humble humming hushed ideal idyllic immense indigo inland intent inventive jade jaunty jazzy jolly jovial joyful
joyous jubilant judicious just keen kind kindred kinetic kingly knowing lacy lasting lavender lavish leafy
leaping learned lemon lilac limber lively local lofty logical lucent lucid lucky luminous lunar lush lyrical
magic magnetic major mango maple marine mature mellow merry mighty mild mindful minty mirthful mobile modern
modest moonlit mossy moving muted mystic natural nautical neat nebular nimble noble nocturnal nomadic northern
notable novel oaken oceanic ochre opal open optimal orange orderly organic original ornate outgoing pacific
painted pastel patient peaceful peachy pensive peppy perfect pewter placid playful pleasant plum poetic poised
polar polished polite popular precious precise prime pristine prompt proper proud prudent pure purple quaint
quick quiet quirky radiant rainy rapid rare ready refined regal relaxed reliable resolute restful rich rising
roaming robust rolling roomy rosy rousing royal ruby rugged rural rustic saffron sage sapphire scarlet scenic
secure sedate select serene settled shady sharp shiny shrewd silent silken silver simple sincere singing skilful
sleek smart smiling smooth snappy snowy snug soaring sociable soft solid sonic sound southern sparkling special
spicy spirited splendid sporty spotless spry stable stately steady stellar sterling stoic storied striking
strong studious sturdy stylish suave sublime subtle sunlit sunny super supple sweeping sweet sylvan tactful tall
tangy tawny tender tidal tidy timely topaz tough tranquil trim tropic true trusty tuneful twilight ultra unique
united upbeat upland upright useful valiant valid velvet verdant versed vibrant vintage violet vital vivid
wandering warm watchful wavy western whole willing windy winged winning winsome wintry wise wistful witty
wonderful wooden worthy woven zany zealous zesty zippy
"""

ANIMALS = """
aardvark addax agouti albatross alpaca anchovy angelfish anole antelope argali armadillo arowana auklet avocet
axolotl babbler badger bandicoot barnacle barracuda basilisk bearcat beetle beluga bilby binturong bison bittern
blackbird bluebird bluejay bobcat bobolink bonefish bongo bonito bowerbird bream buffalo bulbul bullfinch
bumblebee bunting burbot bushbaby bustard butterfly buzzard caiman camel canary capelin caracal caracara
cardinal caribou cassowary catfish chameleon chamois cheetah chickadee chipmunk chiton chough chub cicada
cichlid civet clam clownfish coati cod conch condor conger coot cormorant corncrake cowrie coyote crab
crane crayfish cricket crocodile crossbill cuckoo curlew cuscus dace deer degu dhole dikdik dingo dolphin
dormouse dory dotterel dove dragonfly drongo duck dugong duiker dunlin dunnock eagle echidna eel egret eider
eland elephant elk emu ermine falcon fawn fennec ferret fieldfare finch firefly flamingo flounder foal fox
francolin frog fulmar gadwall gannet gazelle gecko gemsbok genet gerbil gerenuk gharial giraffe gnu goby godwit
goldcrest goldeneye goldfinch goldfish goose gopher goshawk grackle grayling grebe greyhound grison grosbeak
grouper grouse guanaco gudgeon guillemot gull guppy gyrfalcon haddock halibut hamster hare harrier hawfinch hawk
hedgehog heron herring hippo hoatzin honeybee hoopoe hornbill horse hound husky hutia hyrax ibex ibis iguana
impala inchworm indri jabiru jacamar jacana jackal jackdaw jaeger jaguar javelina jay jellyfish jerboa junco
kagu kakapo kangaroo katydid kestrel kingbird kinglet kinkajou kite kitten kittiwake kiwi koala koi kouprey
kowari kudu lacewing ladybird lamb lamprey lanner lapwing lark leafbird lechwe lemming lemur leopard limpet
limpkin linnet lion lizard llama loach lobster longspur lorikeet lovebird lynx lyrebird macaw mackerel magpie
mako mallard manakin manatee manta mantis margay markhor marlin marmot marten meerkat merganser mink minnow
mongoose moorhen mouflon mouse mullet muntjac muskox muskrat mussel mustang myna narwhal nautilus newt nighthawk
nightjar nilgai noctule numbat nuthatch nutria ocelot octopus okapi olingo orca oribi oriole oryx osprey ostrich
otter ouzel ovenbird owl owlet oyster paca panda pangolin panther parakeet parrot partridge peccary pelican
penguin perch peregrine petrel phalarope pheasant phoebe pigeon pika pilchard pintail pipit plaice platypus
plover pochard polecat pollock pony porcupine porpoise potoo potoroo prawn pronghorn ptarmigan puffin puma
pupfish quail quetzal quokka quoll rabbit raccoon raven razorbill redpoll redshank redstart redwing reedbuck
reindeer remora rhea rhino ringtail robin roebuck rook rorqual saiga sailfish salmon sandpiper sardine scallop
scarab scaup scoter sculpin seahorse seal serin serow serval sheldrake shoveler shrike shrimp sifaka siskin
skimmer skink skua skylark sloth smelt snipe solenodon spaniel sparrow spoonbill sprat springbok squid squirrel
starfish starling steenbok stingray stoat stonechat stork sturgeon sunbird sunfish swallow swan tahr takahe
takin tanager tapir tarpon tarsier tenrec tern terrapin tetra thrasher thrush tiger tinamou titmouse topi
tortoise toucan trogon trout tuatara tuna turaco turkey turnstone turtle twite urchin urial veery vicuna vireo
viscacha vole wagtail wahoo wallaby wallaroo walleye walrus warbler warthog waterbuck waxbill waxwing weasel
weaver wheatear whelk whimbrel whinchat whippet whydah wildcat wisent wolf wolverine wombat wrasse wren wryneck
yak yearling zander zebra zebu zorilla
"""


def two_words(number: int) -> str:
    """The name for a number: every pair of words is equally likely for a number that is."""
    adjectives, animals = ADJECTIVES.split(), ANIMALS.split()
    rest, animal = divmod(number, len(animals))
    return f"{adjectives[rest % len(adjectives)]}-{animals[animal]}"


def are_two_words(name: str) -> bool:
    """Whether `two_words` can have made this name."""
    adjective, _, animal = name.partition("-")
    return adjective in ADJECTIVES.split() and animal in ANIMALS.split()
